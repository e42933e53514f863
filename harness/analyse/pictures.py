"""The scenes of a policy as pictures: rows of cells over columns, for every policy and for families of them.

A family is known by what its decisions keep in ``Decision.memory``: a policy of another package that keeps
``seats``, ``queues``, ``office``, ``blocks`` or ``regions`` in the same form has the same picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby
from typing import Any

from coordinator.policies.packing import LINEAR
from coordinator.policies.partitions import width
from coordinator.policies.regions.hypercube import HypercubeAllocation, dimension
from coordinator.view import Slot
from harness.predict.scenes import Scene, Show
from workloads.patterns import grid

Places = Mapping[int, Sequence[int]]
"""The places of jobs: processors, or seats."""


@dataclass(frozen=True)
class Cell:
    """A cell of a picture: jobs by name, the one of them that has its ``turn``, and what else is there.

    Attributes:
        span: how many columns it covers.
    """

    jobs: tuple[str, ...] = ()
    note: str = ""
    turn: str = ""
    span: int = 1

    @property
    def text(self) -> str:
        """The jobs, the one that has its turn in brackets, and the note."""
        jobs = ",".join(f"[{job}]" if job == self.turn else job for job in self.jobs)
        return jobs + (" " if jobs and self.note else "") + self.note


ELSEWHERE = Cell(note=" ")
"""Outside of what a row shows."""


@dataclass(frozen=True)
class Picture:
    """Rows of cells, each row with a label, below the heads of columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def of_scene(scene: Scene, show: Show) -> list[Picture]:
    """The slots over the processors, then the picture of the policy's family; none of an empty machine."""
    memory = scene.plan.decision.memory
    if not scene.plan.decision.placements and not scene.waiting:
        return []
    kept = (
        draw(getattr(memory, name), scene, show) for name, draw in FAMILIES.items() if hasattr(memory, name)
    )
    return [_matrix(scene, show), *(picture for picture in kept if picture)]


def over_time(scenes: Sequence[Scene], show: Show) -> Picture | None:
    """The partitions from scene to scene; None if a table has several slots."""
    if any(len(scene.plan.decision.slots) > 1 for scene in scenes):
        return None
    rows = [(in_ms(scene.at_ns), _matrix(scene, show).rows[0][1]) for scene in scenes]
    return Picture("Partitions over time", _numbers(show.processors), rows)


def in_ms(time_ns: int) -> str:
    return f"{round(time_ns / 1e6, 2):.15g} ms"


def begins_ns(scene: Scene) -> list[int]:
    """When each slot of a scene begins, the first one now."""
    lengths_ns = [slot.length_ns or 0 for slot in scene.plan.decision.slots]
    *begin_ns, _ = accumulate(lengths_ns, initial=scene.plan.start_ns)
    return [max(each, scene.at_ns) for each in begin_ns]


def runs(scene: Scene, slot: Slot, show: Show) -> list[tuple[str, ...]]:
    """The jobs of which a process may run on each processor in a slot."""
    there: list[dict[str, None]] = [{} for _ in range(show.processors)]
    for job, place in scene.plan.decision.placements.items():
        for rank, processor in enumerate(place):
            if slot.allows(job, rank, processor):
                there[processor][show.names[job]] = None
    return [tuple(jobs) for jobs in there]


def _matrix(scene: Scene, show: Show) -> Picture:
    """Ousterhout's matrix: what each processor may run in each slot."""
    cycle = scene.plan.cycle
    notes = dict.fromkeys(scene.owned, "o") | dict.fromkeys(scene.lost, "x")
    rows = []
    for begin, slot in zip(_begins(scene), scene.plan.decision.slots, strict=True):
        rows.append((begin, [Cell(jobs, notes.get(p, "")) for p, jobs in enumerate(runs(scene, slot, show))]))
    after = "until the next event"
    if cycle.total_ns is not None:
        after = (
            f"until {in_ms(cycle.end_ns)}"
            if cycle.end_ns is not None
            else f"again every {in_ms(cycle.total_ns)}"
        )
    keys = {"o": "; o: its owner is there", "x": "; x: lost"}
    said = "".join(key for note, key in keys.items() if note in notes.values())
    return Picture(f"Slots over processors, {after}{said}", _numbers(show.processors), rows)


def _begins(scene: Scene) -> list[str]:
    return [in_ms(begin_ns) for begin_ns in begins_ns(scene)]


def _numbers(count: int) -> list[str]:
    return [*map(str, range(count))]


def _owners(places: Places, show: Show) -> dict[int, tuple[str, ...]]:
    """The job of each place."""
    return {place: (show.names[job],) for job, found in places.items() for place in found}


def _array(seats: Places, scene: Scene, show: Show) -> Picture | None:
    """Ousterhout's linear array and the window of each slot, unless windows are rows of the matrix."""
    owners, processors, decision = _owners(seats, show), show.processors, scene.plan.decision
    if not owners or getattr(show.policy, "packing", "") not in LINEAR:
        return None
    seat_numbers = range((max(owners) // processors + 1) * processors)
    rows = [("seats", [Cell(owners.get(n, ())) for n in seat_numbers])]
    for begin, start, slot in zip(_begins(scene), decision.memory.windows, decision.slots, strict=True):
        running, window = runs(scene, slot, show), range(start, start + processors)
        rows.append(
            (begin, [Cell(running[n % processors]) if n in window else ELSEWHERE for n in seat_numbers])
        )
    columns = [str(n % processors) for n in seat_numbers]
    return Picture("Linear array of seats by processor, and the window of each slot", columns, rows)


def _levels(leaves: int, cell: Callable[[int], Cell]) -> list[tuple[str, Sequence[Cell]]]:
    """The levels of a binary tree over so many processors; ``cell`` makes its nodes, 1 is the root."""
    sizes = [leaves >> depth for depth in range(leaves.bit_length())]
    nodes = [range(leaves // size, 2 * leaves // size) for size in sizes]
    return [
        (f"{size} wide", [replace(cell(node), span=size) for node in level])
        for size, level in zip(sizes, nodes, strict=True)
    ]


def _tree(queues: Places, scene: Scene, show: Show) -> Picture:
    """The queues of a binary tree over the processors, and the nodes that run in each slot: the front."""
    leaves, decision = width(show.processors), scene.plan.decision
    nodes = {job: node for node, queue in queues.items() for job in queue}
    running = [decision.running(slot) & nodes.keys() for slot in range(len(decision.slots))]
    fronts = [{nodes[job]: show.names[job] for job in jobs} for jobs in running]

    def load(node: int) -> int:
        halves = (load(2 * node), load(2 * node + 1)) if node < leaves else ()
        return len(queues.get(node, ())) * (leaves >> node.bit_length() - 1) + sum(halves)

    def cell(node: int) -> Cell:
        jobs = tuple(show.names[job] for job in queues.get(node, ()))
        return Cell(jobs, f"({load(node)})" if load(node) else "", fronts[0].get(node, ""))

    rows = _levels(leaves, cell)
    for begin, front in zip(_begins(scene), fronts, strict=True):
        above = [[leaf >> up for up in range(leaf.bit_length())] for leaf in range(leaves, 2 * leaves)]
        found = groupby(next((node for node in path if node in front), 0) for path in above)
        parts = [(node, sum(1 for _ in same)) for node, same in found]
        rows.append(
            (
                begin,
                [Cell((front[n],), f"N{n - 1}", span=span) if n else Cell(span=span) for n, span in parts],
            )
        )
    return Picture("Queue tree: (load of branch), [front]; the front in each slot", _numbers(leaves), rows)


def _office(office: Sequence[Any], scene: Scene, show: Show) -> Picture | None:
    """The registration office: its nodes and the order in which the pointer visits them."""
    turns = {job: turn for turn, job in enumerate(scene.plan.decision.memory.order, 1)}
    names = [show.names[node.job] for node in office]
    rows = [
        (
            "job",
            [
                Cell((n,), turn=n if turns.get(node.job) == 1 else "")
                for n, node in zip(names, office, strict=True)
            ],
        ),
        ("level, slots there", [Cell(note=f"{node.level},{node.received}") for node in office]),
        ("place in the service queue", [Cell(note=str(turns.get(node.job, ""))) for node in office]),
    ]
    return Picture("Registration office, [pointer]", [""] * len(names), rows) if names else None


def _blocks(blocks: Places, scene: Scene, show: Show) -> Picture:
    """The blocks of the buddy system, level by level."""
    leaves = width(show.processors)
    taken = {tuple(block): (show.names[job],) for job, block in blocks.items()}
    gone = {p for block in taken for p in block}.union(scene.lost, range(show.processors, leaves))

    def of(node: int) -> range:
        size = leaves >> node.bit_length() - 1
        return range(node * size - leaves, (node + 1) * size - leaves)

    def cell(node: int) -> Cell:
        free = gone.isdisjoint(of(node)) and not (node > 1 and gone.isdisjoint(of(node // 2)))
        return Cell(taken.get(tuple(of(node)), ()), "free" if free else "")

    return Picture("Buddy blocks", _numbers(leaves), _levels(leaves, cell))


def _regions(regions: Places, scene: Scene, show: Show) -> Picture:
    """The mesh; or the hypercube in the order of Gray codes, in which cells side by side are neighbours."""
    owners, used = _owners(regions, show), _owners(scene.plan.decision.placements, show)
    rows, columns = grid(show.processors)
    title, across, along = "Mesh", _numbers(columns), _numbers(rows)
    lines = [range(row * columns, (row + 1) * columns) for row in range(rows)]
    if isinstance(show.policy, HypercubeAllocation):
        high, low = divmod(dimension(show.processors) + 1, 2)[0], dimension(show.processors) // 2
        codes = [n ^ n >> 1 for n in range(1 << high)]
        title = "Hypercube"
        across, along = (
            [f"{code:0{high}b}" for code in codes],
            [f"{code:0{low}b}" for code in codes[: 1 << low]],
        )
        lines = [[code << high | other for other in codes] for code in codes[: 1 << low]]  # type: ignore[misc]

    def cell(p: int) -> Cell:
        if p >= show.processors:
            return ELSEWHERE
        note = "x" if p in scene.lost else "unused" if p in owners and p not in used else ""
        return Cell(owners.get(p, ()), note)

    return Picture(
        title, across, [(label, [*map(cell, line)]) for label, line in zip(along, lines, strict=True)]
    )


FAMILIES: Mapping[str, Callable[[Any, Scene, Show], Picture | None]] = {
    "seats": _array,
    "tree": lambda tree, scene, show: _tree(tree.queues, scene, show),
    "queues": _tree,
    "office": _office,
    "blocks": _blocks,
    "regions": _regions,
}
"""The picture of each family, by what the memory of a decision has."""
