"""Why a launch of an MPI program failed, or nothing was heard of its ranks: causes with remedies."""

import os
import re
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from coordinator.host import memory_limits
from coordinator.host.rundir import SHARED_MEMORY
from workloads.record import RankResult

BUS_ERRORS = (-signal.SIGBUS, 128 + signal.SIGBUS)
"""Exit statuses after a bus error: of the program itself, and of a shell or launcher around it."""

BUS_ERROR_SIGNS = ("Bus error", "signal 7", "EXIT CODE: 7\n")
"""Signs of a bus error in a launcher's output; the last is MPICH's, for the first rank that failed."""

KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL, signal.SIGKILL)
"""Exit statuses after SIGKILL: of the program itself, and of a shell or of MPICH's launcher around it."""

KILLED_SIGNS = ("Killed", "signal 9", "EXIT CODE: 9\n")

SCARCE_BYTES = 64 << 20
"""Containers get so much shared memory unless they ask for more; MPI takes some megabytes for each rank."""

MOUNT = f"mount -t tmpfs -o mode=1777 tmpfs {SHARED_MEMORY}"  # its remedy where it is missing or read-only

OUTPUT_BYTES = 64 << 10  # room that the outputs of programs may need

OURS = re.compile(r"(?m)^lockstep: (.+)")  # lines of the preloaded library about itself in a rank

REFUSED = re.compile(r"object '([^']*)' from LD_\w+ cannot be \w+ \(([^)]*)\)")
"""A line of the dynamic loader about a library that it does not load."""


def explained(status: int, output: str = "", records: Sequence[RankResult] = ()) -> str:
    """The likely causes of a failure, of silence, or of slow waits, in lines; empty without a sign."""
    return "\n".join(dict.fromkeys([*_causes(status, output), *_of_ranks(records)]))


def without_room(folder: Path) -> str:
    """That the directory with the outputs of programs has no room, in a sentence; empty if it has some."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return ""
    if room.f_bavail * room.f_frsize >= OUTPUT_BYTES:
        return ""
    return (
        f"{folder} has no room, so that outputs are missing: make room there, or set XDG_RUNTIME_DIR or "
        "TMPDIR to a directory with more"
    )


def _causes(status: int, output: str) -> Iterator[str]:
    free, total = _shared_memory()
    if status and not os.access(SHARED_MEMORY, os.W_OK):
        yield f"A cause may be that {SHARED_MEMORY}, where ranks share memory, cannot be written: {MOUNT}"
    if status in BUS_ERRORS or (status and any(sign in output for sign in BUS_ERROR_SIGNS)):
        yield (
            f"Signal 7 is a bus error. Its usual cause is that {SHARED_MEMORY}, where ranks share memory, is "
            f"full: {_room(free, total)}"
        )
    elif status and free < SCARCE_BYTES:
        yield f"A cause may be that {SHARED_MEMORY}, where ranks share memory, is small: {_room(free, total)}"
    if status in KILLED or (status and any(sign in output for sign in KILLED_SIGNS)):
        yield from memory_limits.kills()
    for library, reason in REFUSED.findall(output):
        yield (
            f"The dynamic loader of a program refuses {library}: {reason}. All hosts must see it and have "
            "no older C library; XDG_CACHE_HOME chooses its place"
        )
    if not status:  # else they stand in the output that is shown
        yield from OURS.findall(output)


def _of_ranks(records: Sequence[RankResult]) -> Iterator[str]:
    elsewhere = any(one.processes > len(records) for one in records)
    if elsewhere and any(one.concurrent for one in records):
        yield (
            "Ranks whose threads may all call MPI (MPI_THREAD_MULTIPLE) are not rung from other hosts: they "
            "test every 50 to 400 us. mpi4py asks for that unless MPI4PY_RC_THREAD_LEVEL=serialized is set"
        )


def _shared_memory() -> tuple[float, float]:
    """Bytes that are free where ranks share memory, and all; infinite where that is unknown."""
    try:
        room = os.statvfs(SHARED_MEMORY)
    except OSError:
        return float("inf"), float("inf")
    return room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize


def _room(free: float, total: float) -> str:
    return (
        f"{free / (1 << 20):.1f} of {total / (1 << 20):.1f} MiB are free now. Remove files "
        f"(ls -l {SHARED_MEMORY}, lockstep clean), or enlarge it (mount -o remount,size=1G {SHARED_MEMORY}; "
        "docker run --shm-size=1g)"
    )
