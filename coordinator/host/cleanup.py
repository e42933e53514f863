"""Releasing a run: its processes, cgroups, shared memory and directory.

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

from coordinator.host import identity, mechanisms, processes
from coordinator.host.evidence import Evidence
from coordinator.host.leftovers import leftovers
from coordinator.host.rundir import RunDirectory

SHARED_MEMORY = Path("/dev/shm")
SEGMENT = re.compile(r"mpich_sh|sm_segment\.|vader_segment\.|psm2_shm\.|ucx_shm_")
"""How the MPI libraries name the segments that they make in SHARED_MEMORY."""

TEMPORARY = Path("/tmp")
TOPOLOGY = re.compile("hydra_hwloc_xmlfile_")
"""How Hydra's proxies name what they make in TEMPORARY, whatever TMPDIR says, when a first rank asks for it:
a description of the host, which they have open until they end, and leave behind if they are killed or a
rank aborts. A rank that does not find it looks at the host itself."""

PATIENCE_S = 0.25
"""How long to wait for files that dying processes or other programs still use."""


FILE_TIMES_S = 0.01
"""File times lag the clock by up to a tick of the kernel."""


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
        lambda: _remove_files(
            times_s, [known for note in notes if (known := identity.meant(note.get("launcher")))]
        ),
        lambda: [f"removed directory {directory}"] if directory.remove() else [],
    ]
    did = []
    for step in steps:
        # A failed step must not keep the following ones from being done; nobody else will do them.
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


def _remove_files(times_s: Iterable[float], launchers: Iterable[tuple[int, int]]) -> Iterator[str]:
    spare = {pid for pid, start in launchers if (found := identity.stat(pid)) and found.start == start}
    for since_s in times_s:
        for path in remove_files(since_s, spare):
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


def remove_files(since_s: float, spare: Collection[int] = (), patience_s: float = PATIENCE_S) -> list[Path]:
    """Remove what MPI has made for this user since then and no process maps or has open.

    Pids in ``spare`` do not count: of launchers that only this run was started by.

    A process that is being killed holds it for a moment longer than it shows its mark.
    """
    deadline = time.monotonic() + patience_s
    removed: list[Path] = []
    while candidates := _files(SHARED_MEMORY, SEGMENT, since_s) | _files(TEMPORARY, TOPOLOGY, since_s):
        used = _used(spare)
        for path, place in candidates.items():
            if place not in used:
                path.unlink(missing_ok=True)
                removed.append(path)
        if time.monotonic() > deadline or used.isdisjoint(candidates.values()):
            break
        time.sleep(0.05)
    return removed


def _files(folder: Path, names: re.Pattern[str], since_s: float) -> dict[Path, tuple[int, int]]:
    """Files of this user made in a folder since then, with device and inode of each."""
    found = {}
    for path in folder.iterdir() if folder.is_dir() else ():
        if not names.match(path.name):
            continue
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if status.st_uid == os.getuid() and status.st_ctime >= since_s:
            found[path] = (status.st_dev, status.st_ino)
    return found


def _used(spare: Collection[int]) -> set[tuple[int, int]]:
    """Device and inode of every such file that a process maps or has open.

    Names would say little: in a mount namespace anybody can have a file of the same name.
    """
    used: set[tuple[int, int]] = set()
    for pid in identity.pids():
        if pid in spare:
            continue
        process = Path(f"/proc/{pid}")
        try:
            for line in (process / "maps").read_bytes().splitlines():
                if bytes(SHARED_MEMORY) in line:
                    _, _, _, device, inode, *_ = line.split()
                    major, minor = (int(number, 16) for number in device.split(b":"))
                    used.add((os.makedev(major, minor), int(inode)))
            for link in (process / "fd").iterdir():
                with suppress(OSError):
                    # Only there: to look at a file of a server that is gone takes for ever.
                    if link.readlink().parent in (SHARED_MEMORY, TEMPORARY):
                        status = link.stat()
                        used.add((status.st_dev, status.st_ino))
        except OSError:
            continue
    return used


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
