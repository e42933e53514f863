"""The values of a simulated machine that experiment files and the simulator accept."""

from collections.abc import Mapping, Sequence
from typing import Any

from workloads.bounds import BOUNDS, MACHINE_COSTS, within
from workloads.parameters import Bounds, OneOf
from workloads.validation import InputError, under, whole

LOCAL_SCHEDULERS = ("svr4", "round-robin", "fifo", "eevdf", "rr")
TIMERS = ("independent", "synchronised")
QUEUES = ("bound", "central", "affinity", "stealing")
READ_SERVERS = ("process", "network")
FLAT, HYPERCUBE, MESH, TORUS, TREE = TOPOLOGIES = ("flat", "hypercube", "mesh", "torus", "tree")
COLUMNS = ("quantum", "tqexp", "slpret", "maxwait", "lwait")
TICKS_PER_S = 100
GRID_SIDES = 2
ARRIVALS = ("exponential", "hyperexponential", "geometric")
JOB_CLASSES = ("batch", "interactive", "all")
TAU_S = 10.0
"""Default bound of the bounded slowdown of the jobs of a log or a model (Feitelson et al. 1997)."""
TAU_OF_PROGRAMS_S = 1.0
"""The same of jobs with programs, which run for seconds."""

TOPOLOGY_KEYS = ("topology", "sides")  # the values that ``coordinator.topology`` explains

KEYS = (
    *(*MACHINE_COSTS, "local", "timers", "quantum_ms", "dispatch_table", "reads_served_by"),
    *TOPOLOGY_KEYS,
    "lost",
    "queue",
)
"""The values that an experiment file can give; ``SimulatedMachine`` explains the others."""

RULES: Mapping[str, Bounds | OneOf] = {
    **{cost: BOUNDS[f"machine.{cost}"] for cost in MACHINE_COSTS},
    "local": OneOf(LOCAL_SCHEDULERS),
    "timers": OneOf(TIMERS),
    "reads_served_by": OneOf(READ_SERVERS),
    "topology": OneOf(TOPOLOGIES),
    "queue": OneOf(QUEUES),
}
"""The rules of values that do not depend on others."""


def check_values(values: Mapping[str, Any]) -> None:
    """Accept valid values for KEYS, else raise InputError."""
    for key, allowed in RULES.items():
        if key in values:
            allowed.check(key, values[key])
    _check_sides(values.get("topology", FLAT), values.get("sides"))
    _check_lost(values.get("lost", ()))
    if values.get("hop_latency_us", 0) > 0 and values.get("topology", FLAT) == FLAT:
        raise InputError(
            "hop_latency_us",
            values["hop_latency_us"],
            "needs a machine with distances, and topology is 'flat'",
            'write topology = "hypercube"',
        )
    if "dispatch_table" in values:
        _check_table(values["dispatch_table"])
    if "quantum_ms" in values:
        _check_quantum(values["quantum_ms"], values.get("local"))


def lost_processors(values: Mapping[str, Any], processors: int) -> frozenset[int]:
    """The processors that are lost from the beginning on a machine of ``processors`` processors."""
    lost = values.get("lost", ())
    _check_lost(lost)
    for index, processor in enumerate(lost):
        if processor >= processors:
            raise InputError(
                f"lost[{index}]",
                processor,
                f"the machine has {processors} processors, numbered from 0",
                "give a smaller number",
            )
    if len(lost) == processors:
        raise InputError(
            "lost", list(lost), f"these are all {processors} processors of the machine", "leave at least one"
        )
    return frozenset(lost)


def _check_lost(lost: Any) -> None:
    if not isinstance(lost, Sequence) or isinstance(lost, str):
        raise InputError("lost", lost, "must be a list of processors", "write lost = [0, 1]")
    for index, processor in enumerate(lost):
        within("machine.lost", processor, f"lost[{index}]")
        if processor in lost[:index]:
            raise InputError(f"lost[{index}]", processor, "is twice in the list", "remove one")


def _check_sides(topology: str, sides: Any) -> None:
    grid = topology in (MESH, TORUS)
    if not grid and (sides is None or sides == ()):
        return
    if not grid:
        raise InputError(
            "sides",
            sides,
            f"needs a mesh or a torus, and topology is {topology!r}",
            'write topology = "mesh"',
        )
    if not isinstance(sides, Sequence) or isinstance(sides, str) or len(sides) != GRID_SIDES:
        raise InputError(
            "sides",
            sides,
            f"a {topology} has a number of columns and a number of rows",
            "write sides = [4, 4]",
        )
    for index, side in enumerate(sides):
        within("machine.sides", side, f"sides[{index}]")


def _check_quantum(quantum_ms: Any, local: Any) -> None:
    within("machine.quantum_ms", quantum_ms)
    tick_ms = 1000 / TICKS_PER_S
    if quantum_ms % tick_ms:
        raise InputError(
            "quantum_ms",
            quantum_ms,
            f"is not a multiple of the clock tick of {tick_ms:g} ms",
            "give 10, 20, 30, ...",
        )
    if local != "round-robin":
        raise InputError(
            "quantum_ms",
            quantum_ms,
            f"needs local = 'round-robin', and local is {local!r}",
            'write local = "round-robin"',
        )


def _check_table(rows: Any) -> None:
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise InputError(
            "dispatch_table", rows, "must be a list of at least one row", "give one row per priority"
        )
    for index, row in enumerate(rows):
        where = f"dispatch_table[{index}]"
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(COLUMNS):
            raise InputError(where, row, "must be " + ", ".join(COLUMNS), "give five whole numbers")
        with under(where):
            check_dispatch_row(row, len(rows))


def check_dispatch_row(row: Sequence[Any], levels: int) -> None:
    """Refuse a row of a dispatch table of ``levels`` rows, by the name of its wrong column."""
    for name, value in zip(COLUMNS, row, strict=True):
        most = levels - 1 if name in ("tqexp", "slpret", "lwait") else 2**31 - 1
        whole(name, value, minimum=1 if name == "quantum" else 0, maximum=most)
