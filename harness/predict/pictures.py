"""Scenes of a policy as values and as pictures: rows of cells, for every policy and for families of them.

A family is known by what its decisions keep in ``Decision.state``: a policy of another package that keeps
``seats``, ``queues``, ``office``, ``blocks`` or ``regions`` in the same form has the same picture.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from coordinator.policies import Policy
from coordinator.policies.packing import LINEAR
from coordinator.policies.partitions import width
from coordinator.policies.regions.hypercube import HypercubeAllocation, dimension
from workloads.patterns import grid


@dataclass(frozen=True)
class Cell:
    """A cell of a picture: jobs, the one that has its ``turn``, a note, and how many columns it covers."""

    jobs: Sequence[str] = ()
    note: str = ""
    turn: str = ""
    span: int = 1

    @property
    def text(self) -> str:
        jobs = ",".join(f"[{job}]" if job == self.turn else job for job in self.jobs)
        return jobs + (" " if jobs and self.note else "") + self.note


ELSEWHERE = Cell(note=" ")  # outside of what a row shows
Row = tuple[str, Sequence[Cell]]


@dataclass(frozen=True)
class Picture:
    """Rows of cells, each row with a label, below the heads of columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Row]


@dataclass(frozen=True)
class ShownSlot:
    """When a slot begins, its length if it has one, and the jobs that may run on each processor."""

    from_ms: float
    length_ms: float | None
    runs: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Scene:
    """What is in force after an event; jobs have names."""

    at_ms: float
    reason: str  # the policy's reason to decide
    cause: str  # the event in words
    placements: Mapping[str, Sequence[int]]  # the processor of each rank
    slots: Sequence[ShownSlot]
    cyclic: bool
    waiting: Sequence[str]  # the jobs that no slot lets run, in order of arrival
    lost: Sequence[int]  # the processors that are no longer there
    owned: Sequence[int]  # those whose owners are there
    pictures: Sequence[Picture] = ()  # of the policy's family


def in_ms(time_ms: float) -> str:
    return f"{round(time_ms, 2):.15g} ms"


def of_scene(scene: Scene) -> list[Picture]:
    """Ousterhout's matrix, what each processor may run in each slot, and those of the policy's family."""
    if not scene.placements and not scene.waiting:
        return []
    last = scene.slots[-1]
    after = "until the next event"
    if last.length_ms is not None:
        after = f"until {in_ms(last.from_ms + last.length_ms)}"
        if scene.cyclic:
            after = f"again every {in_ms(sum(slot.length_ms or 0 for slot in scene.slots))}"
    legend = ("; o: its owner is there" if scene.owned else "") + ("; x: lost" if scene.lost else "")
    notes = dict.fromkeys(scene.owned, "o") | dict.fromkeys(scene.lost, "x")
    rows = [
        (begin, [Cell(jobs, notes.get(p, "")) for p, jobs in enumerate(slot.runs)])
        for begin, slot in zip(_begins(scene), scene.slots, strict=True)
    ]
    return [Picture(f"Slots over processors, {after}{legend}", _heads(last.runs), rows), *scene.pictures]


def over_time(scenes: Sequence[Scene]) -> Picture | None:
    """The partitions from scene to scene; None if a table has several slots."""
    if any(len(scene.slots) > 1 for scene in scenes):
        return None
    rows = [(in_ms(scene.at_ms), [Cell(jobs) for jobs in scene.slots[0].runs]) for scene in scenes]
    return Picture("Partitions over time", _heads(scenes[0].slots[0].runs), rows)


def of_family(state: Any, *about: Any) -> list[Picture]:
    """The pictures of what a decision keeps in its state, ``about`` a scene, jobs' names and the policy."""
    return [it for kept, draw in FAMILIES.items() if hasattr(state, kept) and (it := draw(state, *about))]


def _begins(scene: Scene) -> list[str]:
    return [in_ms(max(slot.from_ms, scene.at_ms)) for slot in scene.slots]


def _heads(columns: Iterable[Any]) -> list[str]:
    return [str(number) for number, _ in enumerate(columns)]


def _owners(places: Mapping[Any, Sequence[int]], names: Any) -> dict[int, tuple[str, ...]]:
    """The job of each place: a processor, or a seat."""
    return {place: (names[job],) for job, place_list in places.items() for place in place_list}


def _array(state: Any, scene: Scene, names: Sequence[str], policy: Policy) -> Picture | None:
    """Ousterhout's linear array and the window of each slot, unless windows are rows of the matrix."""
    owners = _owners(state.seats, names)
    processors = len(scene.slots[0].runs)
    if not owners or getattr(policy, "packing", "") not in LINEAR:
        return None
    seats = range((max(owners) // processors + 1) * processors)
    rows: list[Row] = [("seats", [Cell(owners.get(n, ())) for n in seats])]
    for begin, start, slot in zip(_begins(scene), state.windows, scene.slots, strict=True):
        inside = range(start, start + processors)
        rows.append((begin, [Cell(slot.runs[n % processors]) if n in inside else ELSEWHERE for n in seats]))
    heads = [str(n % processors) for n in seats]
    return Picture("Linear array of seats by processor, and the window of each slot", heads, rows)


def _levels(leaves: int, cell: Callable[[int], Cell]) -> list[Row]:
    """The levels of a binary tree over so many processors; ``cell`` makes its nodes, 1 is the root."""
    sizes = [leaves >> depth for depth in range(leaves.bit_length())]
    levels = [(size, range(leaves // size, 2 * leaves // size)) for size in sizes]
    return [(f"{size} wide", [replace(cell(node), span=size) for node in nodes]) for size, nodes in levels]


def _tree(state: Any, scene: Scene, names: Sequence[str], policy: Policy) -> Picture:
    """The queues of a binary tree over the processors, and the nodes that run in each slot: the front."""
    leaves = width(len(scene.slots[0].runs))
    queued = (state.tree if hasattr(state, "tree") else state).queues
    queues = {node: [names[job] for job in queue] for node, queue in queued.items()}
    running = [{job for jobs in slot.runs for job in jobs} for slot in scene.slots]
    fronts = [{n: job for n, queue in queues.items() for job in queue if job in jobs} for jobs in running]

    def load(node: int) -> int:
        halves = (load(2 * node), load(2 * node + 1)) if node < leaves else ()
        return len(queues.get(node, ())) * (leaves >> node.bit_length() - 1) + sum(halves)

    def cell(node: int) -> Cell:
        note = f"({load(node)})" if load(node) else ""
        return Cell(queues.get(node, ()), note, fronts[0].get(node, ""))

    rows = _levels(leaves, cell)
    for begin, front in zip(_begins(scene), fronts, strict=True):
        above = [[leaf >> up for up in range(leaf.bit_length())] for leaf in range(leaves, 2 * leaves)]
        cells_of_nodes = groupby(next((node for node in path if node in front), 0) for path in above)
        cells = [
            (Cell((front[n],), f"N{n - 1}") if n else Cell(), len([*same])) for n, same in cells_of_nodes
        ]
        rows.append((begin, [replace(one, span=span) for one, span in cells]))
    return Picture(
        "Queue tree: (load of branch), [front]; the front in each slot", _heads(range(leaves)), rows
    )


def _office(state: Any, scene: Scene, names: Sequence[str], policy: Policy) -> Picture | None:
    """The registration office: its nodes and the order in which the pointer visits them."""
    office = state.office
    order = [*state.order]
    visits = [order.index(node.job) + 1 if node.job in order else 0 for node in office]
    jobs = [names[node.job] for node in office]
    rows = [
        ("job", [Cell((job,), turn=job if at == 1 else "") for job, at in zip(jobs, visits, strict=True)]),
        ("level, slots there", [Cell(note=f"{node.level},{node.received}") for node in office]),
        ("place in the service queue", [Cell(note=str(at or "")) for at in visits]),
    ]
    return Picture("Registration office, [pointer]", [""] * len(jobs), rows) if jobs else None


def _blocks(state: Any, scene: Scene, names: Sequence[str], policy: Policy) -> Picture:
    """The blocks of the buddy system, level by level."""
    processors = len(scene.slots[0].runs)
    leaves = width(processors)
    taken = {tuple(block): (names[job],) for job, block in state.blocks.items()}
    gone = {p for block in taken for p in block}.union(scene.lost, range(processors, leaves))

    def block(node: int) -> range:
        size = leaves >> node.bit_length() - 1
        return range(node * size - leaves, (node + 1) * size - leaves)

    def cell(node: int) -> Cell:
        free = gone.isdisjoint(block(node)) and not (node > 1 and gone.isdisjoint(block(node // 2)))
        return Cell(taken.get(tuple(block(node)), ()), "free" if free else "")

    return Picture("Buddy blocks", _heads(range(leaves)), _levels(leaves, cell))


def _regions(state: Any, scene: Scene, names: Sequence[str], policy: Policy) -> Picture:
    """The mesh; or the hypercube in the order of Gray codes, in which cells side by side are neighbours."""
    owners, used = _owners(state.regions, names), {p for place in scene.placements.values() for p in place}
    processors, cube = len(scene.slots[0].runs), isinstance(policy, HypercubeAllocation)
    rows, columns = grid(processors)
    if cube:
        bits = dimension(processors)
        rows = 1 << bits // 2
        columns = 1 << bits - bits // 2
    along, across = ([n ^ n >> 1 if cube else n for n in range(side)] for side in (rows, columns))

    def label(number: int, side: int) -> str:
        return f"{number:0{(side - 1).bit_length()}b}" if cube else str(number)

    def cell(p: int) -> Cell:
        note = "x" if p in scene.lost else "unused" if p in owners and p not in used else ""
        return Cell(owners.get(p, ()), note) if p < processors else ELSEWHERE

    lines = [(label(r, rows), [cell(r * columns + c) for c in across]) for r in along]
    return Picture("Hypercube" if cube else "Mesh", [label(c, columns) for c in across], lines)


FAMILIES: Mapping[str, Callable[[Any, Scene, Sequence[str], Policy], Picture | None]] = {
    "seats": _array,
    "tree": _tree,
    "queues": _tree,
    "office": _office,
    "blocks": _blocks,
    "regions": _regions,
}
"""The picture of each family, by what the state of its decisions has."""
