"""Experiments and answers: plans, records, simulations, analysis, reports."""

import os
import signal
from types import FrameType

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
INTERRUPTED = 130


class Interrupted(KeyboardInterrupt):
    """Work was interrupted and has released everything; the message states what is recorded."""


def end_quietly_when_interrupted() -> None:
    """Let an ending signal terminate the process with one line, unless it is handled elsewhere.

    That is while the rest is still being imported: nothing has been started yet that would have to
    be released.
    """
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"lockstep: interrupted\n")
    os._exit(INTERRUPTED)
