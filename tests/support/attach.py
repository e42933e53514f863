"""A tool that asks the kernel to stop a process, and hangs without awaiting the stop: ``attach.py PID``."""

import ctypes
import sys
import time

PTRACE_ATTACH = 16

if ctypes.CDLL(None, use_errno=True).ptrace(PTRACE_ATTACH, int(sys.argv[1]), None, None):
    sys.exit(f"attach: {ctypes.get_errno()}")
print("attached", flush=True)
time.sleep(1000)
