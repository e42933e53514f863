"""Runs that take no time: a coordinator that makes up plausible results, and a quiet watcher.

``python fake_runs.py PAUSE ARGUMENTS...`` is the ``lockstep`` command on made-up runs, each
of which takes PAUSE seconds.
"""

import dataclasses
import sys
import time

from among_others import once, replace

from coordinator.workload import JobResult, Result, Switch
from harness import application, cli
from harness.measure import runner
from harness.measure.calibrate import Constants
from harness.measure.measured import Measured
from harness.measure.plan import plan
from harness.measure.session import MeasurementSession, Tools
from harness.predict import missing, parameter_grid
from harness.predict.recorded_programs import NONE
from harness.store.database import Store
from harness.store.records import POLICY
from workloads.record import ALWAYS, RankResult, WaitCounts, Waits
from workloads.timeline import BARRIER, GONE, RECEIVED, SENT, SLEPT, Timeline
from workloads.work import Command

SLOWDOWN = {"none": 2.8, "implicit": 1.1, "gang": 1.02, "partitioned": 1.2, "batch": 1.0}
ORIGIN_NS = 1_000_000
START_UP_NS = 2_000_000


def imitate(workload, progress=None, history=None):
    """All jobs share the processors evenly and end together, late by the policy's slowdown."""
    alone_ns = round(sum(job.program.alone_s * 1e9 for job in workload.jobs))
    folded = any(job.program.processes > len(workload.processors) for job in workload.jobs)
    if folded and workload.options.waiting == "spin":
        alone_ns *= 10
    policy = type(workload.policy).__name__.lower()
    factor = SLOWDOWN.get({"uncoordinated": "none"}.get(policy, policy), 1.0)
    makespan_ns = round(alone_ns * factor * (1 + 0.01 * workload.repeat))
    jobs = []
    ranks = []
    for job in workload.jobs:
        arrival_ns = round(job.arrival_s * 1e9)
        placement = tuple(rank % len(workload.processors) for rank in range(job.program.processes))
        finish_ns = arrival_ns + makespan_ns
        start_ns = arrival_ns + min(START_UP_NS, makespan_ns // 2)
        times = {"arrival_ns": arrival_ns, "admitted_ns": arrival_ns, "start_ns": start_ns}
        jobs.append(JobResult(job.number, len(placement), placement, finish_ns=finish_ns, **times))
        made = [
            made_up(job.number, rank, workload.processors[place], alone_ns // len(workload.jobs), finish_ns)
            for rank, place in enumerate(placement)
        ]
        if workload.timeline:
            made = list(map(traced, made))
        if isinstance(job.program, Command):
            made = [as_command(result, makespan_ns) for result in made]
        ranks += made
    switches = (
        [Switch(n % 3, n * 10**7, 50_000 + n, 10_000 + n) for n in range(20)] if policy == "gang" else []
    )
    mechanism = "signals" if workload.options.mechanism == "auto" else workload.options.mechanism
    if not workload.policy.stops_processes:
        mechanism = "none"
    return Result(tuple(jobs), tuple(ranks), tuple(switches), mechanism, "imitated", "mpich 0 (nowhere)")


def failing(when):
    """Tools with which the workloads that ``when`` holds for fail."""

    def run_workload(workload, progress, history=None):
        result = imitate(workload)
        if not when(workload):
            return result
        jobs = [dataclasses.replace(job, finish_ns=None, failure="rank 1 has gone") for job in result.jobs]
        return dataclasses.replace(result, jobs=tuple(jobs), ranks=(), failure="job 0: rank 1 has gone")

    return dataclasses.replace(TOOLS, run_workload=run_workload)


def made_up(job, rank, processor, computing_ns, finish_ns):
    waits = WaitCounts(
        spun=10,
        blocked=5,
        spun_ns=1000,
        blocked_ns=5000,
        blocks=6,
        spun_histogram=tuple({11: 3, 17: 7}.get(bin, 0) for bin in range(64)),
        blocked_histogram=tuple({22: 5}.get(bin, 0) for bin in range(64)),
    )
    return RankResult(
        **{"job": job, "rank": rank, "processes": 2, "processor": processor, "host": "imitation"},
        **{"pid": 1000 + rank, "phases": 100, "start_ns": min(ORIGIN_NS, finish_ns)},
        **{"finish_ns": finish_ns},
        **{"cpu_ns": computing_ns, "computing_ns": computing_ns * 9 // 10, "communicating_ns": 0},
        **{"synchronizing_ns": computing_ns // 20, "voluntary_switches": 10, "involuntary_switches": 4},
        **{"run_queue_ns": 100, "served": 0, "rechecks": 0, "estimate_ns": -1},
        waits=Waits(waits, waits),
    )


def as_command(result, looked_ns):
    """The result of a rank of somebody else's program, seen from outside."""
    times = {"looked_ns": looked_ns, "running_ns": result.cpu_ns, "ready_ns": (result.cpu_ns or 0) // 4}
    return RankResult(**{name: getattr(result, name) for name in ALWAYS}, **times)


def traced(result):
    """The result with ten phases of 1 ms, in which the jobs take turns and rank 1 sends rank 0 a message."""
    job = result.job
    rank = result.rank
    made = Timeline()
    for phase in range(10):
        begin_ns = ORIGIN_NS + phase * 3_000_000
        turn_ns = begin_ns + job * 1_000_000
        if job:
            made.add(GONE, begin_ns, turn_ns)
        made.add(SENT if rank else RECEIVED, turn_ns + 500_000, phase + 1, 1 - rank)
        made.add(SLEPT, turn_ns + 800_000, begin_ns + 3_000_000)
        made.add(BARRIER, turn_ns + 500_000, begin_ns + 3_000_000)
    return result.traced(made.rows(ORIGIN_NS), made.lost)


class ImitatedSimulator:
    """A simulator that says of everything that it is 3 % faster than it was measured.

    It takes the place of ``counterpart.back_end``.
    """

    def __init__(
        self,
        measured,
        session,
        recorded=NONE,
        *,
        timeline,
    ):
        self._measured = measured
        self._session = session
        self._timeline = timeline

    def refusal(self, task):
        return None

    def guess_s(self, task):
        return 1.0

    def run(self, task):
        measured = self._measured[task.key]
        share = 0.97 if measured.kind == POLICY else 1
        jobs = tuple(
            dataclasses.replace(
                job, admitted_ns=None, finish_ns=job.finish_ns and round(share * job.finish_ns)
            )
            for job in measured.jobs
        )
        ranks = [dataclasses.replace(rank, host="simulator") for rank in measured.ranks]
        if self._timeline:
            ranks = list(map(traced, ranks))
        changes = {
            "kind": task.kind,
            "repeat": task.repeat,
            "session": self._session,
            "launcher": "simulator",
        }
        return dataclasses.replace(measured, id=None, switches=(), jobs=jobs, ranks=tuple(ranks), **changes)


def probe(processors, working_set_bytes):
    return {
        "remote_wakeup_ns": [4e3, 5e3, 6e3],
        "local_switch_ns": [3e3],
        "local_switch_pair_ns": [2e3, 3e3, 4e3],
        "switch_after_idle_ns 500": [4e3, 8e3],
        "switch_after_idle_ns 10000": [-1e3],
        "send_after_idle_ns 500": [1e3, 3e3],
        "send_after_idle_ns 10000": [9e3],
        "overrun_ns": [2e3, 4e3],
        "latency_ns": [2e3],
        "idle_wakeup_ns": [3e4],
        "os_noise_length_ns": [1e4, 1e4, 1e5],
        "os_noise_interval_ns": [2e7, 3e7],
        "memory_step_ns": [64.0],
    }


TOOLS = Tools("mpich 0 (nowhere)", probe, imitate)
CONSTANTS = Constants(remote_wakeup_us=5.0, local_switch_us=3.0, latency_us=2.0)


def measure(
    experiment,
    session,
    constants=CONSTANTS,
    watcher=None,
    *,
    timeline=False,
):
    watcher = watcher or Quiet()
    back_end = Measured(session, lambda task: constants, watcher.note, timeline)
    return list(runner.run(plan(experiment), back_end, session.store, watcher))


def measured(experiment, place, tools=TOOLS, **options):
    """All runs of an experiment, in a store at ``place``; ``options`` are those of ``measure``."""
    with Store(place) as store:
        return measure(experiment, MeasurementSession.begin((0, 1), tools, store), **options)


class Quiet:
    """A watcher that remembers what it was told."""

    def __init__(self):
        self.steps = []
        self.warnings = []
        self.statuses = []

    def progress(self, progress):
        self.steps.append(progress)

    def row_status(self, status):
        self.statuses.append(status)

    def note(self, text):
        pass

    def warn(self, text):
        self.warnings.append(text)


def command_on_made_up_runs(monkeypatch, folder, capsys):
    """The command on made-up runs in an empty directory; gives status, stdout, stderr."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(application, "real_tools", lambda *nodes, **also: TOOLS)
    monkeypatch.setattr(missing, "back_end", ImitatedSimulator)

    def lockstep(*arguments):
        status = cli.main(arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return lockstep


def main(pause_s, arguments):
    """The command; its pages have no pictures, and simulations of one point instead of nine, for a moment."""

    def slowly(workload, progress, history=None):
        time.sleep(pause_s)
        return imitate(workload, progress)

    once(replace)
    tools = Tools(TOOLS.launcher, probe, slowly)
    replace(application, "real_tools", lambda *nodes, **also: tools)
    replace(missing, "back_end", ImitatedSimulator)
    if arguments[0] == "report" and "--format" not in arguments:
        from harness.report import rendering  # noqa: PLC0415 - slow to load

        replace(rendering, "drawn", lambda draw: {})
    for name, value in {"FACTORS": (1,), "IMBALANCES": (0.25,), "MOST_SPANS": 10_000}.items():
        replace(parameter_grid, name, value)
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
