"""Threads that run C code side by side, and end in time."""

import threading
import time

PATIENCE_S = 20


def together(*bodies):
    """Run each in a thread of its own to its end; C code does not hold the interpreter's lock."""
    threads = [threading.Thread(target=body, daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    return threads


def ended(threads):
    deadline = time.monotonic() + PATIENCE_S
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return not any(thread.is_alive() for thread in threads)
