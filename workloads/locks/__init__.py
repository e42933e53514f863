"""Locks of the ranks that share a node, in a library in C: Python has no atomic instructions.

The library is made when it is first used, like ``workloads.native``.
"""

import ctypes
import mmap
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from workloads import native
from workloads.options import NOTHING_DONE, Remedy

SOURCE = Path(__file__).with_name("lock.c")
LINE_BYTES = 128
WORD_BYTES = 4
STOPS_AT = 16
OUTSIDE, ENTERING, QUEUED, ASLEEP, INSIDE = range(5)
"""States of a rank in the page, as in lock.c."""


def page_file(folder: Path, job: int) -> Path:
    return folder / f"locks-{job}"


class SectionMarks:
    """A job's page as the agent sees it, which reads the ranks' states and writes when it will stop them."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as page:
            if not os.fstat(page.fileno()).st_size:
                raise FileNotFoundError(f"{file} is empty")
            self._page = mmap.mmap(page.fileno(), 0)
        self._times = memoryview(self._page).cast("q")

    def inside(self, rank: int) -> bool:
        """Whether the rank is in a critical section, about to enter one, or spins for one."""
        at = rank * LINE_BYTES
        return self._page[at : at + WORD_BYTES] not in _LEAVE

    def holds(self, rank: int) -> bool:
        """Whether the rank is in a critical section."""
        at = rank * LINE_BYTES
        return self._page[at : at + WORD_BYTES] == _INSIDE

    def stops(self, rank: int, at_ns: int) -> None:
        """Say when the rank is going to be stopped, by CLOCK_MONOTONIC; 0 if that is not known."""
        self._times[(rank * LINE_BYTES + STOPS_AT) // self._times.itemsize] = at_ns


_INSIDE = INSIDE.to_bytes(WORD_BYTES, sys.byteorder)
_LEAVE = tuple(state.to_bytes(WORD_BYTES, sys.byteorder) for state in (OUTSIDE, ASLEEP))


def library(
    tell: native.Tell = lambda line: None,
    care: native.Care = nullcontext,
) -> Path:
    return native.compiled(SOURCE, tell, care)


class _Taker(ctypes.Structure):
    """``struct taker`` of lock.c."""

    _fields_ = (
        ("page", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("ranks", "rank", "kind", "rechecks")),
        *((name, ctypes.c_int64) for name in ("limit_ns", "waited_ns")),
        ("blocks", ctypes.c_int32),
        ("ticket", ctypes.c_uint32),
        *((name, ctypes.c_int64) for name in ("warning_ns", "holder_check_ns")),
        ("remedy", ctypes.c_int32),
    )


class SectionLocks:
    """One rank's locks, of a kind of ``lock_program.LOCKS``, on a page that all ranks of its job share.

    ``file`` is a descriptor of the page, zero at first, which may be closed afterwards. A rank spins
    ``limit_ns`` for a lock before it sleeps.
    """

    def __init__(
        self,
        file: int,
        rank: int,
        ranks: int,
        locks: int,
        kind: int,
        limit_ns: int,
        remedy: Remedy = NOTHING_DONE,
    ) -> None:
        code = ctypes.CDLL(str(library()))
        code.lock_bytes.restype = ctypes.c_int64
        size = code.lock_bytes(ranks, locks)
        if os.fstat(file).st_size < size:
            os.ftruncate(file, size)
        self._memory = mmap.mmap(file, size)
        self._page = (ctypes.c_char * size).from_buffer(self._memory)
        address = ctypes.addressof(self._page)
        self._taker = _Taker(address, ranks, rank, kind, 0, limit_ns, 0, 0, 0)
        self._taker.remedy = remedy.code
        self._taker.warning_ns = remedy.warning_ns
        self._taker.holder_check_ns = remedy.holder_check_ns
        self._given = ctypes.byref(self._taker)
        code.lock_begin(self._given)
        self._enter: Any = code.lock_enter
        self._leave: Any = code.lock_leave
        self._enter.restype = self._leave.restype = None

    @property
    def rechecks(self) -> int:
        """How often only a sleeper's own look has found that its turn had come: wake-ups that were lost."""
        return int(self._taker.rechecks)

    def enter(self, lock: int) -> None:
        """Wait for ``lock``: spin up to the limit, then sleep until another rank hands it over."""
        self._enter(self._given, lock)

    def leave(self, lock: int) -> None:
        """Give ``lock``, which this rank has entered, to the next."""
        self._leave(self._given, lock)

    def last_wait(self) -> tuple[int, int]:
        """How long the last ``enter`` took, in nanoseconds, and how often it slept."""
        return self._taker.waited_ns, self._taker.blocks

    def close(self) -> None:
        del self._page
        self._memory.close()
