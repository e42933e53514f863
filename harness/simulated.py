"""The simulator's answer to a measured run: the same jobs, policy and waiting rules, by calculation.

A simulated run is recorded like a measured one and is told by its kind, so that whatever
reads records can put the two side by side.
"""

from __future__ import annotations

import base64
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness import records
from harness.calibrate import MEDIANS_US
from harness.counterpart import KINDS
from harness.experiment import Experiment, Scheduler
from harness.jobs import described
from harness.records import JobRecord, RunRecord
from harness.run import Task
from harness.simulator.local import rr
from harness.simulator.machine import SimulatedMachine
from harness.simulator.model import SWITCHING
from harness.simulator.outcome import JobOutcome, Outcome, Waits
from harness.simulator.simulate import simulate
from harness.simulator.work import simulated_job
from workloads import timeline as timelines

LOCAL = {"other": "eevdf", "rr": "rr"}
"""The simulated scheduler for each of the kernel's scheduling classes."""

SIMULATOR = "simulator"


def machine_like(constants: Mapping[str, Any], processors: int, scheduler: Scheduler) -> SimulatedMachine:
    """A simulated machine with the calibrated ``constants`` of a host (``RunRecord.constants``).

    It has what the ranks have: they take messages to themselves without sending any, look
    for messages only while they wait, and spin by the wall clock. The kernel's clock ticks at
    the same time on all processors. What a record made by an earlier version lacks costs nothing.
    """
    known = {name: constants.get(name, 0.0) for name in MEDIANS_US}
    handoff_us = constants.get("handoff_us", known["switch_us"])
    parts_us = known["send_us"] + known["receive_us"] + (known["serve_us"] + known["poll_us"]) / 2
    table = None
    if scheduler.local == "rr" and known["rr_interval_us"] and known["tick_us"]:
        table = rr.table(max(1, round(known["rr_interval_us"] / known["tick_us"])))
    return SimulatedMachine(
        processors=processors,
        context_switch_us=handoff_us,
        wakeup_us=max(0.0, known["switch_us"] - handoff_us),
        idle_wakeup_us=max(0.0, (known["wakeup_us"] or known["switch_us"]) - handoff_us),
        # The calibrated latency is that of a whole message, from the call that sends to the one that has it.
        latency_us=max(0.0, known["latency_us"] - parts_us),
        send_us=known["send_us"],
        receive_us=known["receive_us"],
        serve_us=known["serve_us"],
        poll_us=known["poll_us"] / 2,
        rule_switch_us=known["switch_us"],
        rule_latency_us=known["latency_us"],
        local=LOCAL[scheduler.local],
        dispatch_table=table,
        messages_to_self=False,
        handles_when_waiting=True,
        timers="synchronised",
        spin_clock="wall",
        tick_us=known["tick_us"] or None,
        slice_us=known["slice_us"] or None,
        slot_cost_us=constants.get("slot_cost_us", ()),
        lateness_us=constants.get("lateness_us", ()),
        detour_gap_us=constants.get("detour_gap_us", 0.0),
        detour_length_us=constants.get("detour_length_us", 0.0),
    )


@dataclasses.dataclass(frozen=True)
class Host:
    """What simulated runs imitate and where they are noted.

    Attributes:
        session: the invocation of Lockstep that simulates.
        digest: of the experiment, as the runs that are imitated have it.
        processors: ids of the cores that stand for the simulated processors.
        constants: the host's calibrated constants, as in ``RunRecord.constants``.
        conditions: of the runs that are imitated.
    """

    session: str
    digest: str
    processors: Sequence[int]
    constants: Mapping[str, Any]
    conditions: Mapping[str, Any]

    @classmethod
    def of(cls, measured: RunRecord, session: str) -> Host:
        """The host on which ``measured`` was made."""
        return cls(session, measured.digest, measured.processors, measured.constants, measured.conditions)


def run(experiment: Experiment, task: Task, host: Host, *, timeline: bool = False) -> RunRecord:
    """Simulate a task of the experiment; with ``timeline`` the ranks carry theirs."""
    begin = time.monotonic()
    outcome = _outcome(experiment, task, host)
    return _record(experiment, task, host, outcome, time.monotonic() - begin, timeline)


def _outcome(experiment: Experiment, task: Task, host: Host) -> Outcome:
    scheduler = task.scheduler
    return simulate(
        [simulated_job(job) for job in task.jobs],
        machine_like(host.constants, len(host.processors), scheduler),
        scheduler.policy,
        blocking=scheduler.blocking,
        spin_switches=scheduler.spin_switches,
        seed=experiment.seed,
        repeat=task.repeat,
        # Cells are different machines' runs: chance must not favour the same jobs in all of them.
        stream=task.cell.index,
        timeline=True,  # tells what each process did; costs a few milliseconds
    )


def _record(
    experiment: Experiment, task: Task, host: Host, outcome: Outcome, wall_s: float, timeline: bool
) -> RunRecord:
    spans = _Spans.of(outcome, task)
    programs = {job.number: described(job.program) for job in task.jobs}
    phases = {job.number: simulated_job(job).program.phase_count() for job in task.jobs}
    return RunRecord(
        session=host.session,
        recorded_at=records.now(),
        experiment=experiment.name,
        digest=host.digest,
        cell=task.cell.index,
        settings=task.cell.settings,
        kind=KINDS[task.kind],
        scheduler=task.scheduler.table,
        repeat=task.repeat,
        seed=experiment.seed,
        processors=host.processors,
        constants=host.constants,
        mechanism="",
        mechanism_reason="",
        launcher=SIMULATOR,
        wall_s=wall_s,
        failure=outcome.failure,
        conditions=host.conditions,
        jobs=tuple(
            JobRecord(
                job=job.number,
                program=programs[job.number],
                processes=len(job.placement),
                placement=job.placement,
                arrival_ns=job.arrival_ns,
                start_ns=spans.start_ns(job.number),
                finish_ns=job.finish_ns,
                failure="" if job.finish_ns is not None else outcome.failure or "not finished",
            )
            for job in outcome.jobs
        ),
        ranks=tuple(
            _rank(job, rank, spans, host, timeline) | {"phases": phases[job.number]}
            for job in outcome.jobs
            if job.finish_ns is not None
            for rank in range(len(job.placement))
        ),
        switches=(),
    )


@dataclasses.dataclass(frozen=True)
class _Spans:
    """What each process did: rows of (process, activity, begin, end), in order of time.

    Attributes:
        rows: shape (n, 4); times in nanoseconds.
        first: number of each job's first process.
    """

    rows: NDArray[np.int64]
    first: Mapping[int, int]

    @classmethod
    def of(cls, outcome: Outcome, task: Task) -> _Spans:
        parts = []
        for processor in range(len(outcome.spent_ns)):
            began, _, process, activity = outcome.timeline[outcome.timeline[:, 1] == processor].T
            ended = np.append(began, outcome.end_ns)[1:]  # empty on a processor that nobody used
            used = (process >= 0) & (ended > began)
            parts.append(np.stack([process, activity, began, ended], axis=1)[used])
        rows = np.concatenate(parts)
        first, count = {}, 0
        for job in sorted(task.jobs, key=lambda job: (job.arrival_s, job.number)):
            first[job.number] = count
            count += job.program.processes
        return cls(rows[np.argsort(rows[:, 2], kind="stable")], first)

    def of_rank(self, job: int, rank: int) -> NDArray[np.int64]:
        """The rows of one process."""
        rows: NDArray[np.int64] = self.rows[self.rows[:, 0] == self.first[job] + rank]
        return rows

    def start_ns(self, job: int) -> int | None:
        """When the first process of a job began; None if none did."""
        later = [first for first in self.first.values() if first > self.first[job]]
        end = min(later, default=1 << 62)
        ours = self.rows[(self.rows[:, 0] >= self.first[job]) & (self.rows[:, 0] < end)]
        return int(ours[0, 2]) if len(ours) else None


def _rank(job: JobOutcome, rank: int, spans: _Spans, host: Host, timeline: bool) -> dict[str, Any]:
    """A rank record (docs/formats.md); the waits of all ranks of a job stand with rank 0."""
    rows = spans.of_rank(job.number, rank)
    spent = [int((rows[rows[:, 1] == part, 3] - rows[rows[:, 1] == part, 2]).sum()) for part in range(4)]
    start_ns, finish_ns = int(rows[0, 2]), int(rows[-1, 3])
    record = {
        "job": job.number,
        "rank": rank,
        "processes": len(job.placement),
        "processor": host.processors[job.placement[rank]],
        "host": SIMULATOR,
        "pid": 0,
        "start_ns": start_ns,
        "finish_ns": finish_ns,
        "cpu_ns": sum(spent[:3]),
        "computing_ns": spent[0],
        "communicating_ns": spent[1],
        "synchronizing_ns": spent[2],
        "switching_ns": spent[SWITCHING],
        "voluntary_switches": 0,
        "involuntary_switches": int((rows[:, 1] == SWITCHING).sum()),
        "run_queue_ns": 0,
        "served": 0,
        "rechecks": 0,
        "waits": {
            "barrier": _waits(job.barriers if rank == 0 else None),
            "read": _waits(job.reads if rank == 0 else None),
        },
    }
    if job.bursts_ns:
        record["responses_ns"] = list(job.bursts_ns)
    if timeline:
        kept = rows[: timelines.ROWS]
        packed = timelines.pack(
            np.stack(
                [
                    timelines.RAN + kept[:, 1],
                    kept[:, 2] - start_ns,
                    kept[:, 3] - start_ns,
                    np.full(len(kept), -1, dtype=np.int64),
                ],
                axis=1,
            )
        )
        record["timeline"] = base64.b64encode(packed).decode()
    return record


def _waits(waits: Waits | None) -> dict[str, int]:
    return dataclasses.asdict(waits or Waits(0, 0, 0, 0)) | {"blocks": waits.blocked if waits else 0}
