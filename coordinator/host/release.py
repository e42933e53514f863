"""``python -m coordinator.host.release DIRECTORY`` releases a run whose driver was killed.

Usually a guardian does the same at that moment, and then there is nothing left to do, or both do it.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

from coordinator.host import cleanup
from coordinator.host.rundir import RunDirectory


def main(path: str) -> None:
    directory = RunDirectory(Path(path))
    with suppress(OSError):  # it has vanished already, or was never made
        directory.keep()
    cleanup.release(directory, spare={os.getpid()})


if __name__ == "__main__":
    main(*sys.argv[1:])
