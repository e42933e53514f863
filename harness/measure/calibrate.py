"""Machine constants for waiting rules and simulator, measured just before they are used."""

from __future__ import annotations

import json
import os
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from coordinator.host import guarded_program
from coordinator.host.environment import PYTHON
from coordinator.host.launch import LaunchError, run_session
from coordinator.host.launchers import Launcher
from coordinator.host.priority import own_slice_ns
from harness.measure import calibrate_slots
from harness.measure.own_cache import own_cache_kb
from harness.store.records import Calibration, quantile
from workloads import detours

PROBE_RANKS = 3
PROBE_TIMEOUT_S = 120.0

RR_INTERVAL = Path("/proc/sys/kernel/sched_rr_timeslice_ms")

RESTED_SWITCH, RESTED_SEND = "rested_switch_ns", "rested_send_ns"
"""Quantities whose names a rest in microseconds follows."""

CACHE = "cache_kb"
"""A quantity in KiB; all others are in nanoseconds."""

MEANS = {"detour_gap_us": "detour_gap_ns", "detour_length_us": "detour_ns"}
"""Constants that are means, with the names of their samples; all others are medians."""

DISTRIBUTIONS = (
    "tick_lateness_us",
    "handoff_scatter_us",
    "rest_us",
    "rested_switch_us",
    "rested_send_us",
    "overrun_us",
)
"""Constants of each run that are lists."""

SHARES = [share / 20 for share in range(1, 20, 2)]
"""Middles of ten equal parts of a distribution."""

Probe = Callable[[Sequence[int], int], Mapping[str, list[float]]]
"""Takes two processors and a working set in bytes; gives samples by quantity, in ns."""

ProbeBetween = Callable[[], Mapping[str, list[float]]]
"""Gives samples by quantity of messages between two hosts."""


class Measurement(NamedTuple):
    """Samples of one quantity in nanoseconds (or of CACHE).

    The name of a mechanism, or a rest in microseconds, may follow the quantity's name.
    """

    quantity: str
    samples: list[float]
    working_set_bytes: int = 0


@dataclass(frozen=True)
class HostConstants:
    """Costs of a host's messages, switches and kernel: medians, and means of the detours.

    Attributes:
        switch_us: additional cost of a message whose receiver has blocked on a busy processor:
            the context switch that waiting rules weigh their spinning against.
        handoff_us: processor time of a switch between two processes of one processor.
        latency_us: one-way latency of a message.
        wakeup_us: additional cost of a message whose receiver has blocked on an idle processor.
        send_us, receive_us, serve_us, poll_us: processor time that messages cost.
        detour_gap_us, detour_length_us: of the operating system's detours.
        tick_us, slice_us, rr_interval_us: the kernel's; 0 where it does not say.
        cache_kb: the largest cache that a processor has for itself; 0 where the kernel does not say.
        reload_us: time to load all of it from elsewhere; 0 if no program has a working set.
    """

    switch_us: float
    handoff_us: float
    latency_us: float
    wakeup_us: float = 0.0
    send_us: float = 0.0
    receive_us: float = 0.0
    serve_us: float = 0.0
    poll_us: float = 0.0
    detour_gap_us: float = 0.0
    detour_length_us: float = 0.0
    tick_us: float = 0.0
    slice_us: float = 0.0
    rr_interval_us: float = 0.0
    cache_kb: float = 0.0
    reload_us: float = 0.0

    @classmethod
    def of_record(cls, recorded: Mapping[str, Any]) -> HostConstants:
        """The constants of ``RunRecord.constants``; missing ones are 0, ``handoff_us`` is ``switch_us``."""
        known = {item.name: recorded.get(item.name, 0.0) for item in fields(cls)}
        return cls(**known | {"handoff_us": recorded.get("handoff_us", known["switch_us"])})


@dataclass(frozen=True)
class Constants(HostConstants):
    """The constants of a calibration, also for mechanisms and working sets.

    Attributes:
        slot_cost_us: time that each processor loses by a slot switch, the largest first, by
            mechanism.
        lateness_us: of slot switches, at SHARES, by mechanism.
        tick_lateness_us: of changes of turns after the clock tick, at SHARES; 0 where no tick is
            seen, empty without a calibration.
        handoff_scatter_us: how much longer or shorter a hand-off is than the mean, at SHARES; empty
            without a calibration.
        rest_us: times for which a process has not run, or not communicated, ascending.
        rested_switch_us: for each of them, of a hand-off to such a process that waits, at SHARES.
        rested_send_us: for each of them, by how much longer its next send takes, at SHARES.
        overrun_us: by how much longer than asked a computation takes, at SHARES; empty without a calibration.
        step_ns: time of a step through a working set, by its size in bytes.
    """

    slot_cost_us: Mapping[str, list[float]] = field(default_factory=dict)
    lateness_us: Mapping[str, list[float]] = field(default_factory=dict)
    tick_lateness_us: list[float] = field(default_factory=list)
    handoff_scatter_us: list[float] = field(default_factory=list)
    rest_us: list[float] = field(default_factory=list)
    rested_switch_us: list[list[float]] = field(default_factory=list)
    rested_send_us: list[list[float]] = field(default_factory=list)
    overrun_us: list[float] = field(default_factory=list)
    step_ns: Mapping[int, float] = field(default_factory=dict)

    def unit_ns(self, working_sets: Collection[int]) -> float:
        """The step time if all programs have one working set; else 0, and each rank measures its own."""
        sizes = set(working_sets)
        return self.step_ns.get(sizes.pop(), 0.0) if len(sizes) == 1 else 0.0

    def of_run(self, mechanism: str) -> dict[str, Any]:
        """The constants that a run under ``mechanism`` uses, as they are recorded (docs/formats.md)."""
        numbers: dict[str, Any] = {
            name: value for name, value in vars(self).items() if isinstance(value, int | float)
        }
        slots = {"slot_cost_us": self.slot_cost_us, "lateness_us": self.lateness_us}
        numbers |= {name: table[mechanism] for name, table in slots.items() if mechanism in table}
        return numbers | {name: getattr(self, name) for name in DISTRIBUTIONS}


def mpi_probe(launcher: Launcher) -> Probe:
    """A probe that runs ``workloads.probe`` with this launcher.

    The probe raises LaunchError if it does not run, or prints something else than samples.
    """

    def probe(processors: Sequence[int], working_set_bytes: int) -> Mapping[str, list[float]]:
        places = ",".join(map(str, processors))
        return _probed(launcher, ["--processors", places, "--working-set-bytes", str(working_set_bytes)], ())

    return probe


def mpi_probe_between(launcher: Launcher, hosts: Sequence[str]) -> ProbeBetween | None:
    """A probe of messages between the first two different ``hosts``; None if there are not two."""
    server, *others = dict.fromkeys(hosts) or [""]
    if not others:
        return None
    return lambda: _probed(launcher, ["--between"], [server, others[0], others[0]])


def _probed(launcher: Launcher, options: Sequence[str], hosts: Sequence[str]) -> Mapping[str, list[float]]:
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


def messages(probe: Probe, processors: Sequence[int], working_sets: Iterable[int]) -> Iterator[Measurement]:
    """Measure messages by ``probe``, for every working set, on the first two of ``processors``."""
    for size in sorted(set(working_sets)) or [0]:
        for quantity, samples in probe(processors[:2], size).items():
            yield Measurement(quantity, samples, size)


def slots(
    run_workload: calibrate_slots.RunWorkload, processors: Sequence[int], mechanisms: Iterable[str]
) -> Iterator[Measurement]:
    """Measure the costs of a slot switch by each mechanism."""
    for mechanism in mechanisms:
        for quantity, samples in calibrate_slots.measure(run_workload, processors, mechanism).items():
            yield Measurement(f"{quantity} {mechanism}", samples)


def kernel(processor: int) -> Iterator[Measurement]:
    """Times of the kernel's local schedulers, and the size of ``processor``'s own cache: one sample each."""
    yield Measurement("tick_ns", [float(detours.tick_ns())])
    if os.sched_getscheduler(0) == os.SCHED_OTHER and (slice_ns := own_slice_ns()):
        yield Measurement("slice_ns", [float(slice_ns)])
    if RR_INTERVAL.exists():
        yield Measurement("rr_interval_ns", [float(RR_INTERVAL.read_text()) * 1e6])
    yield Measurement(CACHE, [float(own_cache_kb(processor))])


def constants(calibrations: Iterable[Calibration]) -> Constants:
    """The constants from calibrations; no cost is negative."""
    samples: dict[str, list[float]] = defaultdict(list)
    steps: dict[int, float] = {}
    moves: list[tuple[int, float]] = []
    scatter: list[float] = []
    for one in calibrations:
        if one.quantity == "unit_ns":
            steps[one.working_set_bytes] = statistics.median(one.samples)
        else:
            samples[one.quantity] += one.samples
        if one.quantity == "handoff_pair_ns":  # of each probe apart: the machine may drift between two
            usual_ns = statistics.median(one.samples)
            scatter += [sample_ns - usual_ns for sample_ns in one.samples]
        if one.quantity == "move_ns":
            moves += [(one.working_set_bytes, time_ns) for time_ns in one.samples]
    numbers = {
        name: _us(statistics.fmean, samples[MEANS[name]])
        if name in MEANS
        else _us(statistics.median, samples[name.removesuffix("_us") + "_ns"])
        for name in (item.name for item in fields(HostConstants))
    }
    numbers["cache_kb"] = max(samples[CACHE], default=0.0)
    numbers["reload_us"] = _us(
        statistics.median, [ns * max(1.0, numbers["cache_kb"] * 1024 / size) for size, ns in moves]
    )
    scatter_us = _shares_us(scatter)
    by_mechanism = [(quantity.split(), found) for quantity, found in samples.items() if " " in quantity]
    rests = [rest for (quantity, rest), _ in by_mechanism if quantity == RESTED_SWITCH]
    rests = sorted((rest for rest in rests if f"{RESTED_SEND} {rest}" in samples), key=float)
    return Constants(
        **numbers,
        slot_cost_us={
            mechanism: [cost_ns / 1e3 for cost_ns in sorted(found, reverse=True)]
            for (quantity, mechanism), found in by_mechanism
            if quantity == "slot_cost_ns"
        },
        lateness_us={
            mechanism: _shares_us(found)
            for (quantity, mechanism), found in by_mechanism
            if quantity == "lateness_ns"
        },
        tick_lateness_us=_shares_us(samples["tick_lateness_ns"]),
        handoff_scatter_us=[more_us - statistics.fmean(scatter_us) for more_us in scatter_us],
        rest_us=[float(rest) for rest in rests],
        rested_switch_us=[_costs_us(samples[f"{RESTED_SWITCH} {rest}"]) for rest in rests],
        rested_send_us=[_costs_us(samples[f"{RESTED_SEND} {rest}"]) for rest in rests],
        overrun_us=_costs_us(samples["overrun_ns"]),
        step_ns=steps,
    )


def _shares_us(samples_ns: list[float]) -> list[float]:
    """The values at SHARES; empty without samples."""
    ascending = sorted(samples_ns)
    return [quantile(ascending, share) / 1e3 for share in SHARES if ascending]


def _costs_us(samples_ns: list[float]) -> list[float]:
    """The values at SHARES, none negative."""
    return [max(0.0, cost_us) for cost_us in _shares_us(samples_ns)]


def _us(middle: Callable[[list[float]], float], samples_ns: list[float]) -> float:
    return max(0.0, middle(samples_ns)) / 1e3 if samples_ns else 0.0
