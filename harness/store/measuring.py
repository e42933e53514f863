"""Which driver measures which cells of an experiment into a store: locks in a file alongside it.

The kernel drops the locks of a process that ends, however it ends. Another host sees them where the file
system passes locks on, as NFS does by default; SQLite needs the same of it.
"""

import fcntl
import os
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

WORDS_BYTES = 128  # of each cell: who measures it

OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def claimed(store: Path, digest: str, cells: Collection[int]) -> Iterator[str]:
    """A context in which these cells of an experiment are this process's to measure into the store.

    Gives in words who measures some of them already; empty if no other process does, or if that is unknown.
    """
    path = store.with_name(f"{store.name}.{digest[:16]}.measuring")
    try:
        file, other = _claim(path, cells)
    except OSError:  # a file system without locks
        yield ""
        return
    try:
        yield other
    finally:
        if not other and _locked(file, 0, 0):  # no other process measures other cells
            with suppress(OSError):
                path.unlink()
        os.close(file)


def _claim(path: Path, cells: Collection[int]) -> tuple[int, str]:
    """The open file at ``path`` with the locks of all cells, or with those before one that another has."""
    while True:
        file = os.open(path, OPEN, 0o600)
        try:
            other = next((cell for cell in sorted(cells) if not _locked(file, cell * WORDS_BYTES)), None)
            if other is not None:
                content = os.pread(file, WORDS_BYTES, other * WORDS_BYTES)
                return file, content.strip(b"\0").decode(errors="replace") or "another process"
            if os.path.samestat(os.fstat(file), path.stat()):
                words = f"process {os.getpid()} on {socket.gethostname()}".encode()[:WORDS_BYTES]
                for cell in cells:
                    os.pwrite(file, words.ljust(WORDS_BYTES, b"\0"), cell * WORDS_BYTES)
                return file, ""
        except FileNotFoundError:  # the last one to measure has just removed it
            pass
        except BaseException:
            os.close(file)
            raise
        os.close(file)


def _locked(file: int, begin: int, length: int = WORDS_BYTES) -> bool:
    """Whether this process has now the lock of these bytes, to the end of the file if ``length`` is 0."""
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, begin)
    except (BlockingIOError, PermissionError):
        return False
    return True
