"""Measured runs that lack a simulated counterpart, and the back end that makes it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from harness.measure import plan
from harness.measure.plan import BackEnd, Key, Task
from harness.measure.runner import run
from harness.measure.session import Watcher
from harness.predict import recorded_programs
from harness.predict.recorded_programs import NONE, RecordedPrograms
from harness.spec.experiment import Experiment
from harness.store.database import Store
from harness.store.records import COUNTERPARTS, RECORDED, RunRecord
from workloads.validation import InputError

Lacking = list[tuple[Task, RunRecord]]  # simulations to make, each with a measured run to imitate


def back_end(
    measured: Mapping[Key, RunRecord], session: str, recorded: RecordedPrograms, *, timeline: bool
) -> BackEnd:
    """A back end that simulates each task on a machine like the host of ``measured[task.key]``."""
    from harness.predict.process_level import Host, Simulated  # noqa: PLC0415 - its compiler takes long to import

    return Simulated(lambda task: Host.of_run(measured[task.key]), session, timeline, recorded)


def imitates(simulated: RunRecord, measured: RunRecord) -> bool:
    if simulated.kind != COUNTERPARTS.get(measured.kind):
        return False
    alike = ("digest", "cell", "repeat", "scheduler", "constants")
    return all(getattr(simulated, field) == getattr(measured, field) for field in alike)


def missing(
    experiment: Experiment, records: Sequence[RunRecord], recorded: RecordedPrograms = NONE
) -> Lacking:
    """The simulations that measured runs lack, each with the last measured record.

    It leaves out cells with a job that the simulator does not know (a command without a recording),
    processes that change their processors, continue from checkpoints or are unbound on several hosts, and
    remedies that are simulated for bound processes only. A counterpart counts if it was simulated with the
    constants of the measured run.
    """
    done = plan.recorded(records)
    lacking = []
    for task in plan.plan(experiment):
        if task.kind == RECORDED:
            continue
        roams = task.scheduler.options.bind is not True and len(experiment.nodes) > 1
        unknown = not task.simulable or roams or task.scheduler.not_simulated
        if unknown or not _replayable(task, recorded):
            continue
        measured, simulated = done.get(task.key), done.get(task.counterpart.key)
        if measured and (simulated is None or simulated.constants != measured.constants):
            lacking.append((task.counterpart, measured))
    return lacking


def _replayable(task: Task, recorded: RecordedPrograms) -> bool:
    programs = [job.program for job in task.cell.jobs()]
    return all(one.simulable or recorded.known(one) for one in programs)


def complete(
    experiment: Experiment,
    records: Sequence[RunRecord],
    session: str,
    store: Store,
    watcher: Watcher,
    *,
    timeline: bool = False,
    heard: Callable[[RunRecord], None] = lambda record: None,
    further: Callable[[Experiment, Sequence[RunRecord]], Lacking] = lambda experiment, records: [],
) -> list[RunRecord]:
    """Simulate and store what ``records`` lack; returns the new records, each of which ``heard`` receives.

    When nothing lacks any more, ``further`` receives all, and gives what to simulate besides, unheard.
    """
    recorded = recorded_programs.of(experiment, records, store.path.parent)
    simulations: list[RunRecord] = []

    def simulated(lacking: Lacking, *, timeline: bool) -> Iterator[RunRecord]:
        measured = {task.key: record for task, record in lacking}
        imitation = back_end(measured, session, recorded, timeline=timeline)
        for record in run([task for task, _ in lacking], imitation, store, watcher, what="simulations"):
            simulations.append(record)
            yield record

    if lacking := missing(experiment, records, recorded):
        for record in simulated(lacking, timeline=timeline):
            heard(record)
    more = further(experiment, [*records, *simulations])
    if more := [(task, record) for task, record in more if _replayable(task, recorded)]:
        list(simulated(more, timeline=False))
    return [*simulations, *_by_job(experiment, records, session, store, watcher)]


def _by_job(
    experiment: Experiment, records: Sequence[RunRecord], session: str, store: Store, watcher: Watcher
) -> list[RunRecord]:
    """Simulate and store, job by job, the jobs of a log under the policies that this level knows."""
    if not (experiment.of_log and records):
        return []
    from harness.predict.job_level import SimulatedByJob  # noqa: PLC0415 - its compiler takes long to import

    # The digest of an experiment that was rebuilt from its records may be another one than theirs.
    cells = {one.cell for one in records}
    here = replace(experiment, cells=tuple(cell for cell in experiment.cells if cell.index in cells))
    try:
        by_job = replace(SimulatedByJob.of_processes(here), session=session, digest=records[-1].digest)
    except InputError:
        return []  # a program whose time alone is not known
    done = plan.recorded(records)
    lacking = [task for task in by_job.tasks if task.key not in done and by_job.refusal(task) is None]
    return list(run(lacking, by_job, store, watcher, what="simulations by job"))
