"""The console script, also ``python -m harness``.

An interrupt while the rest is still being imported ends it with one line, not a traceback: nothing
has been started yet that would have to be released.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERRUPTED = 130


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"lockstep: interrupted\n")
    os._exit(INTERRUPTED)


def main() -> int:
    """Run the command, which has handlers of its own once it begins; returns the exit status."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)
    from harness import cli  # noqa: PLC0415 - what takes time comes after the handlers

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
