"""Undoing what runs have left: processes held, cgroups, shared memory, directories.

One function releases one run, whoever calls it: the guardian at the end of every run, the
driver to make sure, the agent when both are gone, and a person by ``lockstep clean``. It may be
repeated, and interrupted at any point.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from coordinator.host import mechanisms, processes
from coordinator.host.evidence import Evidence
from coordinator.host.leftovers import leftovers
from coordinator.host.processes import PROXIES
from coordinator.host.rundir import RunDirectory

SHARED_MEMORY = Path("/dev/shm")
SEGMENT = re.compile(r"mpich_sh|sm_segment\.|vader_segment\.|psm2_shm\.|ucx_shm_")
"""How the MPI libraries name the segments that they make in SHARED_MEMORY."""

TEMPORARY = Path("/tmp")
TOPOLOGY = "hydra_hwloc_xmlfile_*"
"""How Hydra's proxies name the files that they make in TEMPORARY, whatever TMPDIR says."""

PATIENCE_S = 0.25
"""How long to wait for what is still in use, by dying processes or by other programs."""


FILE_TIMES_S = 0.01
"""By how much the time of a file may be behind the clock: it is that of the last tick of the kernel."""


def release(directory: RunDirectory, spare: Collection[int] = ()) -> list[str]:
    """End everything of a run and remove what it made; returns what was done, in sentences.

    Args:
        directory: of the run; it may be gone already.
        spare: pids that may live on: the caller's.
    """
    notes = directory.notes()
    groups = [Path(note["cgroup"]) for note in notes if _is_group_of(directory.run, note.get("cgroup"))]
    times_s = [made_s for note in notes if isinstance(made_s := note.get("made_s"), float)]
    steps: list[Callable[[], Iterable[str]]] = [
        lambda: _thaw(groups),
        lambda: _thaw(_add_groups_of(directory.run, groups)),
        lambda: _add_earliest(directory.run, times_s),
        lambda: _end(directory.run, spare, Evidence.of(notes, groups)),
        lambda: _remove_cgroups(groups),
        lambda: _remove_segments(times_s),
        lambda: _remove_topologies(times_s),
        lambda: [f"removed directory {directory}"] if directory.remove() else [],
    ]
    did = []
    for step in steps:
        # Whatever fails, what follows is still due, and nobody is left to whom the failure matters more.
        try:
            did += list(step())
        except Exception as error:
            did.append(f"{type(error).__name__}: {error}")
    return [_printable(f"run {directory.run}: {text}") for text in did]


def _thaw(groups: Iterable[Path]) -> list[str]:
    for group in groups:
        mechanisms.thaw(group)
    return []


def _add_groups_of(run: str, groups: list[Path]) -> list[Path]:
    """``groups`` and those that there are although no journal names them."""
    groups += [group for group in mechanisms.cgroups_of_runs() if group.name == f"lockstep-{run}"]
    return groups


def _add_earliest(run: str, times_s: list[float]) -> list[str]:
    """Without a time from the journal, go by the start of the oldest process of the run."""
    if not times_s and (starts := processes.starts_s(run)):
        times_s.append(min(starts) - FILE_TIMES_S)
    return []


def _is_group_of(run: str, name: object) -> bool:
    """Whether this, from a journal, can be the control group of a run."""
    if not isinstance(name, str) or Path(name).name != f"lockstep-{run}":
        return False
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _end(run: str, spare: Collection[int], evidence: Evidence) -> Iterator[str]:
    ended, left = processes.end(run, spare=spare, evidence=evidence)
    if ended:
        yield f"ended {_count(ended, 'process', 'processes')}"
    if left:
        yield f"{_count(left, 'process', 'processes')} did not end; try again later"


def _remove_cgroups(groups: Iterable[Path]) -> Iterator[str]:
    for group in dict.fromkeys(groups):
        if mechanisms.remove_cgroups(group):
            yield f"thawed and removed cgroup {group}"


def _remove_segments(times_s: Iterable[float]) -> Iterator[str]:
    for since_s in times_s:
        for path in remove_segments(since_s):
            yield f"removed shared memory {path}"


def _remove_topologies(times_s: Iterable[object]) -> Iterator[str]:
    for since_s in times_s:
        if not isinstance(since_s, float):
            continue
        for path in remove_topologies(since_s):
            yield f"removed {path}"


def _printable(text: str) -> str:
    """``text``, in which a name may not be UTF-8."""
    return text.encode(errors="backslashreplace").decode()


def clean(everything: bool = False) -> list[str]:
    """Find what runs have left behind and release it; returns what was done, in sentences.

    A run whose driver is alive, or may be, is left alone unless ``everything`` is true. Only
    processes and directories of this user count, whatever the environment of a process says.
    """
    with leftovers(everything) as (found, unknown):
        did = [line for directory in found for line in release(directory, spare={os.getpid()})] + unknown
    for group in mechanisms.cgroups_of_runs():
        # A group with a process in it belongs to a run that was left alone above.
        if not mechanisms.populated(group) and mechanisms.remove_cgroups(group, patience_s=0):
            did.append(f"removed empty cgroup {group}")
    return did


def remove_segments(since_s: float, patience_s: float = PATIENCE_S) -> list[Path]:
    """Remove MPI segments of this user made since then that no process maps or has open.

    A process that is being killed holds them for a moment longer than it shows its mark.
    """
    deadline = time.monotonic() + patience_s
    removed: list[Path] = []
    while candidates := _segments(since_s):
        used = _used()
        for path, place in candidates.items():
            if place not in used:
                path.unlink(missing_ok=True)
                removed.append(path)
        if time.monotonic() > deadline or used.isdisjoint(candidates.values()):
            break
        time.sleep(0.05)
    return removed


def remove_topologies(since_s: float, patience_s: float = PATIENCE_S) -> list[Path]:
    """Remove the files of this user made since then in which Hydra's proxies describe a host to their ranks.

    A proxy removes its own at its end, but not if it is killed. Which one a file belongs to
    nobody knows, so all stay while some proxy of this user lives.
    """
    deadline = time.monotonic() + patience_s
    while found := [path for path in TEMPORARY.glob(TOPOLOGY) if _made(path, since_s)]:
        if not _proxies():
            for path in found:
                path.unlink(missing_ok=True)
            return found
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    return []


def _made(path: Path, since_s: float) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return status.st_uid == os.getuid() and status.st_ctime >= since_s


def _proxies() -> bool:
    """Whether this user has a proxy of Hydra here."""
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            ours = process.name.isdigit() and process.stat().st_uid == os.getuid()
            if ours and (process / "comm").read_bytes().strip() == PROXIES[0]:
                return True
    return False


def _segments(since_s: float) -> dict[Path, tuple[int, int]]:
    """Segments, with device and inode of each."""
    found = {}
    for path in SHARED_MEMORY.iterdir() if SHARED_MEMORY.is_dir() else ():
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if SEGMENT.match(path.name) and status.st_uid == os.getuid() and status.st_ctime >= since_s:
            found[path] = (status.st_dev, status.st_ino)
    return found


def _used() -> set[tuple[int, int]]:
    """Device and inode of what some process maps of shared memory, or has open; names say little.

    Anybody can have a file of the same name in a mount namespace.
    """
    used: set[tuple[int, int]] = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            for line in (process / "maps").read_bytes().splitlines():
                if bytes(SHARED_MEMORY) in line:
                    _, _, _, device, inode, *_ = line.split()
                    major, minor = (int(number, 16) for number in device.split(b":"))
                    used.add((os.makedev(major, minor), int(inode)))
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    # Only there: to look at a file of a server that is gone takes for ever.
                    if link.readlink().is_relative_to(SHARED_MEMORY):
                        status = link.stat()
                        used.add((status.st_dev, status.st_ino))
        except OSError:
            continue
    return used


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
