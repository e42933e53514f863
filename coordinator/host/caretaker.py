"""The caretaker of a run directory: removes it if its maker is killed before another process takes over.

A shell that waits for a word. It starts before the directory and its parent exist, within a millisecond.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

_SCRIPT = """read -r word && exit
exec 9< "$1" && rm -rf -- "$0" && flock -n 9 && [ "$1" -ef /dev/fd/9 ] && rmdir -- "$1"
"""
# A run that begins now holds the lock of the parent directory. flock gets the parent as a descriptor: given
# a name, flock would make a file if the directory had vanished meanwhile.


class Caretaker:
    """Removes the directory if this process ends before it calls ``dismiss``."""

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.dismiss()

    def dismiss(self) -> None:
        """End the caretaker: another process takes over the directory, or it is gone."""
        with suppress(OSError):  # somebody has killed it
            os.write(self._word, b"go\n")
        os.close(self._word)
        self._shell.wait()
