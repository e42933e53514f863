"""The caretaker of a directory: removes it if whoever makes it is killed before anybody else answers for it.

A shell that waits for a word; it is there before the directory is, and starts within a millisecond.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path

_SCRIPT = """read -r word && exit
exec 9< "$1" && rm -rf -- "$0" && flock -n 9 && [ "$1" -ef /dev/fd/9 ] && rmdir -- "$1"
"""
# A run that begins now holds the lock of its parent directory. flock gets it as a descriptor: by name it
# would make a file there if the directory had gone meanwhile.


class Caretaker:
    """Waits until it is dismissed; without that it removes the directory once this process has ended.

    Raises:
        OSError: if it cannot be started.
    """

    def __init__(self, path: Path) -> None:
        heard, self._word = os.pipe()
        try:
            self._shell = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, str(path), str(path.parent)],
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                stdin=heard,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self._word)
            raise
        finally:
            os.close(heard)

    def dismiss(self) -> None:
        """From now on another process answers for the directory, or it is gone."""
        with suppress(BrokenPipeError):  # somebody has ended it
            os.write(self._word, b"go\n")
        os.close(self._word)
        self._shell.wait()
