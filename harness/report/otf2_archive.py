"""The events of a Chrome trace as an archive of the Open Trace Format 2, for Vampir and other viewers.

Source of the format: "OTF2, Open Trace Format Version 2", user manual 3.0; the package ``otf2`` writes it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from harness.report.perfetto import MESSAGES, RANKS, Event
from workloads.validation import InputError, written

NS_PER_S = 1_000_000_000

Thread = tuple[int, int]  # process and thread of an event

LEAVES, ENTERS, RECEIVES, SENDS = range(4)  # events at one time are in this order


def package() -> Any:
    """The module ``otf2``.

    Raises:
        InputError: it is not installed.
    """
    try:
        return import_module("otf2")
    except ModuleNotFoundError:
        raise InputError(
            "package", "otf2", "is not installed", "pip install 'lockstep-scheduling[otf2]'"
        ) from None


def write(directory: Path, events: Iterable[Event]) -> None:
    """Make the archive ``traces.otf2`` in a directory that does not exist; times in ns since the start.

    Each side is a node. Its threads are processes of that node, with a region for each state that a rank is
    in. Its ranks have one communicator, by which their messages go; the tag is the kind of message, and the
    length 0, since a timeline has none.

    Raises:
        InputError: the directory cannot be made.
    """
    otf2 = package()
    with written("--output", directory, "cannot be made", "name a directory that does not exist"):
        directory.mkdir()
    by_thread = defaultdict(list)
    names = {}
    for event in events:
        if event["ph"] != "M":
            by_thread[event["pid"], event["tid"]].append(event)
        elif event["name"] in ("process_name", "thread_name"):
            names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
    with otf2.writer.open(str(directory), timer_resolution=NS_PER_S) as archive:
        _Archive(otf2, archive, names).fill(by_thread)


class _Archive:
    """An archive that is being written: its locations and communicators."""

    def __init__(self, otf2: Any, archive: Any, names: dict[tuple[str, int, int], str]) -> None:
        self.otf2 = otf2
        self.archive = archive
        define = archive.definitions
        root = define.system_tree_node("lockstep", class_name="machine")
        sides = {
            pid: define.system_tree_node(name, class_name="node", parent=root)
            for (what, pid, _), name in names.items()
            if what == "process_name"
        }
        self.locations = {
            (pid, thread): define.location(
                name,
                group=define.location_group(f"{sides[pid].name}: {name}", system_tree_parent=sides[pid]),
            )
            for (what, pid, thread), name in names.items()
            if what == "thread_name"
        }
        ranks = [thread for thread in self.locations if thread[1] >= RANKS]
        mpi = {"paradigm": otf2.Paradigm.MPI}
        every = tuple(self.locations[thread] for thread in ranks)
        define.group("ranks", otf2.GroupType.COMM_LOCATIONS, members=every, **mpi)
        self.comms = {}
        self.rank_of: dict[Thread, int] = {}
        for pid, side in sides.items():
            ours = [thread for thread in ranks if thread[0] == pid]
            members = tuple(self.locations[thread] for thread in ours)
            group = define.group(side.name, otf2.GroupType.COMM_GROUP, members=members, **mpi)
            self.comms[pid] = define.comm(side.name, group)
            self.rank_of |= {thread: rank for rank, thread in enumerate(ours)}

    def fill(self, by_thread: dict[Thread, list[Event]]) -> None:
        ends: dict[Any, dict[str, Thread]] = defaultdict(dict)
        for thread, events in by_thread.items():
            for event in events:
                if event["ph"] != "X":
                    ends[event["pid"], event["id"]][event["ph"]] = thread
        for thread, location in self.locations.items():
            write = self.archive.event_writer_from_location(location)
            of_thread = [one for event in by_thread[thread] for one in self._records(event, ends)]
            for time_ns, _, kind, values in sorted(of_thread, key=lambda one: one[:2]):
                getattr(write, kind)(time_ns, *values)

    def _records(self, event: Event, ends: Any) -> Iterator[tuple[int, int, str, tuple[Any, ...]]]:
        begin_ns = round(event["ts"] * 1e3)
        if event["ph"] == "X":
            end_ns = round((event["ts"] + event["dur"]) * 1e3)
            if begin_ns < end_ns:
                region = self.archive.definitions.region(event["name"])
                yield begin_ns, ENTERS, "enter", (region,)
                yield end_ns, LEAVES, "leave", (region,)
            return
        sends = event["ph"] == "s"
        partner = self.rank_of[ends[event["pid"], event["id"]]["f" if sends else "s"]]
        values = partner, self.comms[event["pid"]], MESSAGES.index(event["name"]), 0
        if sends:
            yield begin_ns, SENDS, "mpi_send", values
        else:
            yield begin_ns, RECEIVES, "mpi_recv", values
