"""Machine constants for waiting rules and simulator, measured just before they are used."""

import json
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coordinator.host import guarded_program
from coordinator.host.environment import PYTHON, forwarded
from coordinator.host.launch import LaunchError, run_session
from coordinator.host.launchers import Launcher
from coordinator.host.priority import own_slice_ns
from coordinator.policies import create
from coordinator.workload import NO_HISTORY, History, ParallelJob, Result, Workload
from harness.store.records import Calibration, quantile
from workloads import os_noise
from workloads.constants import CONSTANTS, Constant, MachineConstants, Rows, Samples
from workloads.options import Options
from workloads.program import Program
from workloads.record import RankResult

PROBE_RANKS = 3
PROBE_TIMEOUT_S = 120.0

RR_INTERVAL = Path("/proc/sys/kernel/sched_rr_timeslice_ms")

CACHE = "cache_kb"  # a quantity in KiB; all others are in nanoseconds
SHARES = [share / 20 for share in range(1, 20, 2)]  # middles of ten equal parts of a distribution

Probe = Callable[[Sequence[int], int], Mapping[str, list[float]]]
"""Takes two processors and a working set in bytes; gives samples by quantity, in ns."""

ProbeBetween = Callable[[], Mapping[str, list[float]]]
"""Gives samples by quantity of messages between two hosts."""


class Measurement(NamedTuple):
    """Samples of one quantity in nanoseconds (or of CACHE).

    The name of a mechanism, or an idle time in microseconds, may follow the quantity's name.
    """

    quantity: str
    samples: list[float]
    working_set_bytes: int = 0


class RunWorkload(Protocol):
    """Runs a workload for real, and reports its progress (``coordinator.drive.driver``)."""

    def __call__(
        self, workload: Workload, progress: Callable[[str], None], /, *, history: History = NO_HISTORY
    ) -> Result: ...


SLOT_MS = 10.0
SLOT_COMPUTE_US = 300_000.0
"""Two jobs take turns, so that slots change some sixty times."""

CACHES = Path("/sys/devices/system/cpu")
KIB = {"K": 1, "M": 1024, "G": 1 << 20}


@dataclass(frozen=True, kw_only=True)
class Constants(MachineConstants):
    """The constants of a calibration, also for mechanisms and working sets."""

    # The constants of slot switches by mechanism, then by name.
    slots: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)
    # Time of a step through a working set, by its size in bytes.
    memory_steps_ns: Mapping[int, float] = field(default_factory=dict)
    # Why they may not be those of this host now, in one line; empty if nothing says so.
    warning: str = field(default="", compare=False)

    def memory_step_of(self, working_sets: Collection[int]) -> float:
        """The step time if all programs have one working set; else 0, and each rank measures its own."""
        sizes = set(working_sets)
        return self.memory_steps_ns.get(sizes.pop(), 0.0) if len(sizes) == 1 else 0.0

    def of_run(self, mechanism: str) -> MachineConstants:
        values: dict[str, Any] = {one.name: getattr(self, one.name) for one in CONSTANTS if not one.of_slots}
        return MachineConstants(**values | dict(self.slots.get(mechanism, {})))


def mpi_probe(launcher: Launcher) -> Probe:
    """A probe with this launcher; it raises LaunchError if it does not run, or prints no samples."""

    def probe(processors: Sequence[int], working_set_bytes: int) -> Mapping[str, list[float]]:
        places = ",".join(map(str, processors))
        samples = probed(
            launcher, ["--processors", places, "--working-set-bytes", str(working_set_bytes)], ()
        )
        turns = [*PYTHON, "-m", "workloads.os_noise", str(processors[0])]
        return {**samples, "queried_slice_ns": [float(run_session(turns, forwarded({}), PROBE_TIMEOUT_S))]}

    return probe


def mpi_probe_between(launcher: Launcher, hosts: Sequence[str]) -> ProbeBetween | None:
    """A probe of messages between the first two different ``hosts``; None if there are not two."""
    server, *others = dict.fromkeys(hosts) or [""]
    if not others:
        return None
    return lambda: probed(launcher, ["--between"], [server, others[0], others[0]])


def probed(launcher: Launcher, options: Sequence[str], hosts: Sequence[str]) -> Mapping[str, list[float]]:
    there = guarded_program.COMMAND if hosts else ()
    command = [*there, *PYTHON, "-m", "mpi4py", "-m", "workloads.probe", *options]
    argv = launcher.argv(PROBE_RANKS, command, hosts)
    environment = launcher.environment({}, hosts=hosts)
    said = run_session(argv, environment, PROBE_TIMEOUT_S, parent=launcher.has_children)
    try:
        found: dict[str, list[float]] = json.loads(said)
    except json.JSONDecodeError:
        raise LaunchError(f"the calibration probe printed no samples: {said[:200]!r}") from None
    return found


def of_slots(
    run_workload: RunWorkload, processors: Sequence[int], mechanism: str
) -> Mapping[str, list[float]]:
    """Costs of a slot switch in nanoseconds, by jobs that only compute; empty if the run fails.

    ``slot_cost_ns`` has a sample for each processor: the time that no process used from the first start to
    the last finish, the agent's included, over the number of switches. The others have one for each switch.
    """
    program = Program(processes=len(processors), granularity_us=SLOT_COMPUTE_US, imbalance=0, phases=1)
    workload = Workload(
        jobs=(ParallelJob(0, program), ParallelJob(1, program)),
        policy=create("gang", {"quantum_ms": SLOT_MS}),
        processors=tuple(processors),
        options=Options(mechanism=mechanism),
    )
    result = run_workload(workload, lambda _: None)
    if result.failure or not result.switches:
        return {}
    ranks: dict[int, list[RankResult]] = defaultdict(list)
    for rank in result.ranks:
        ranks[rank.processor].append(rank)
    unused_ns = [
        max(rank.finish_ns for rank in alike)
        - min(rank.start_ns for rank in alike)
        - sum(rank.cpu_ns or 0 for rank in alike)
        for alike in ranks.values()
    ]
    return {
        "slot_cost_ns": [max(0.0, time_ns / len(result.switches)) for time_ns in unused_ns],
        "switch_delay_ns": [float(switch.switch_delay_ns) for switch in result.switches],
        "skew_ns": [float(switch.skew_ns) for switch in result.switches],
    }


def kernel(processor: int) -> Iterator[Measurement]:
    """Times of the kernel's local schedulers, and the size of ``processor``'s own cache: one sample each."""
    yield Measurement("tick_ns", [float(os_noise.tick_ns())])
    if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_OTHER and (slice_ns := own_slice_ns()):
        yield Measurement("slice_ns", [float(slice_ns)])
    if RR_INTERVAL.exists():
        yield Measurement("rr_interval_ns", [float(RR_INTERVAL.read_text()) * 1e6])
    yield Measurement(CACHE, [float(own_cache_kb(processor))])


def own_cache_kb(processor: int, processors: Path = CACHES) -> int:
    """The largest cache of ``processor`` that no other shares, in KiB; 0 if the kernel names none."""
    sizes = [0]
    for index in processors.glob(f"cpu{processor}/cache/index*"):
        try:
            kind, shared, size = (
                (index / name).read_text().strip() for name in ("type", "shared_cpu_list", "size")
            )
        except OSError:
            continue
        if kind != "Instruction" and shared == str(processor) and size[:-1].isdigit():
            sizes.append(int(size[:-1]) * KIB.get(size[-1], 0))
    return max(sizes)


def constants(calibrations: Iterable[Calibration]) -> Constants:
    """The constants from calibrations; no cost is negative."""
    samples: dict[str, list[float]] = defaultdict(list)
    steps: dict[int, float] = {}
    moves: list[tuple[int, float]] = []
    scatter: list[float] = []
    for one in calibrations:
        if one.quantity == "memory_step_ns":
            steps[one.working_set_bytes] = statistics.median(one.samples)
        else:
            samples[one.quantity] += one.samples
        if one.quantity == "local_switch_pair_ns":  # of each probe apart: the machine may drift between two
            usual_ns = statistics.median(one.samples)
            scatter += [sample_ns - usual_ns for sample_ns in one.samples]
        if one.quantity == "migration_ns":
            moves += [(one.working_set_bytes, time_ns) for time_ns in one.samples]
    parts = [quantity.split() for quantity in samples if " " in quantity]
    rests = [{of for name, of in parts if name == one.quantity} for one in CONSTANTS if one.kind == Rows]
    idle_times = sorted(set.intersection(*rests), key=float)
    values = {one.name: _value(one, samples, idle_times) for one in CONSTANTS}
    scatter_us = _shares_us(scatter)
    values["cache_kb"] = max(samples[CACHE], default=0.0)
    values["cache_reload_us"] = _us([ns * max(1.0, values["cache_kb"] * 1024 / size) for size, ns in moves])
    values["switch_deviation_us"] = [more_us - statistics.fmean(scatter_us) for more_us in scatter_us]
    values["idle_times_us"] = [float(idle_us) for idle_us in idle_times]
    slots = {
        mechanism: {
            "slot_cost_us": [
                cost_ns / 1e3 for cost_ns in sorted(samples[f"{name} {mechanism}"], reverse=True)
            ],
            "switch_delay_us": _shares_us(samples[f"switch_delay_ns {mechanism}"]),
        }
        for name, mechanism in parts
        if name == "slot_cost_ns"
    }
    return Constants(**values, slots=slots, memory_steps_ns=steps)


def _value(one: Constant, samples: Mapping[str, list[float]], idle_times: Sequence[str]) -> Any:
    """The value of a constant that follows from the samples of its quantity alone."""
    if one.kind == Rows:
        return [_costs_us(samples[f"{one.quantity} {time}"]) for time in idle_times]
    values = samples.get(one.quantity, [])
    if one.kind == Samples:
        return _costs_us(values)
    return _us(values, statistics.fmean if one.mean else statistics.median)


def _shares_us(samples_ns: list[float]) -> list[float]:
    ascending = sorted(samples_ns)
    return [quantile(ascending, share) / 1e3 for share in SHARES if ascending]


def _costs_us(samples_ns: list[float]) -> list[float]:
    return [max(0.0, cost_us) for cost_us in _shares_us(samples_ns)]


def _us(samples_ns: list[float], middle: Callable[[list[float]], float] = statistics.median) -> float:
    return max(0.0, middle(samples_ns)) / 1e3 if samples_ns else 0.0
