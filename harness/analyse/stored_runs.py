"""The experiments in a store, with all their runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from harness.analyse import results_document
from harness.analyse.precision import scattered
from harness.analyse.results_document import ResultsDocument
from harness.analyse.timelines import PLANNED, Lanes, Message, Span, messages, occupancy, planned_slots, spans
from harness.measure.session import Watcher, session_name
from harness.predict import missing
from harness.spec.experiment import Experiment
from harness.spec.naming import scheduler_name
from harness.store.database import Store
from harness.store.payloads import reading
from harness.store.rebuild import experiment_of
from harness.store.records import BY_JOB, MEASURED_KINDS, POLICY, SIMULATED, WITH_SCHEDULES, RunRecord
from workloads.record import RankResult
from workloads.validation import InputError


@dataclass(frozen=True)
class Found:
    """An experiment and all its runs in a store, oldest first."""

    experiment: Experiment
    records: list[RunRecord]

    @property
    def by_job(self) -> bool:
        return all(record.kind == BY_JOB for record in self.records)

    @property
    def experiment_digest(self) -> str:
        return self.records[-1].digest

    @cached_property
    def results(self) -> ResultsDocument:
        return results_document.results(self.experiment, self.records)


def read(results: Path, name: str | None, watcher: Watcher, *, simulate: bool = False) -> list[Found]:
    """The experiments in the store at ``results``, the one with the newest run last.

    ``simulate`` records the simulations that measured runs lack.
    InputError without a store, without runs, or if no experiment is called ``name``.
    """
    with Store(results, existing=True, warn=watcher.warn) as store:
        experiments = []
        for digest in _digests(store, name):
            records = store.runs(digest)
            experiment = _experiment(store, records)
            if experiment is None:
                raise InputError(
                    "RESULTS",
                    str(store.path),
                    "holds an experiment of which there are dedicated runs only",
                    "repeat the command that began it, with --resume",
                )
            if simulate:
                records += _simulated(experiment, records, store, watcher)
            experiments.append(Found(experiment, records))
        return experiments


def check(store: Store) -> None:
    """Refuse a store with an experiment that ``read`` would refuse, or with damaged runs."""
    for digest, _ in store.experiments():
        _experiment(store, store.runs(digest))


def _experiment(store: Store, records: Sequence[RunRecord]) -> Experiment | None:
    """The experiment of runs in a store; None if they are dedicated ones alone."""
    if not any(record.kind in WITH_SCHEDULES for record in records):
        return None
    with reading(store.path):
        return experiment_of(records)


def of_processes(experiments: Sequence[Found], results: Path, remedy: str) -> list[Found]:
    """Those whose jobs have processes; else an InputError with the remedy."""
    of_ranks = [one for one in experiments if not one.by_job]
    if not of_ranks:
        raise InputError("RESULTS", str(results), "holds simulated schedules of jobs, and no runs", remedy)
    return of_ranks


def _digests(store: Store, asked_name: str | None) -> list[str]:
    experiments = store.experiments()
    if not experiments:
        raise InputError("RESULTS", str(store.path), "holds no runs", "make some with lockstep run --results")
    chosen = [
        digest
        for digest, name in experiments
        if asked_name in (None, name) or digest.startswith(asked_name or "-")
    ]
    if not chosen:
        names = ", ".join(f"{name} ({digest[:8]})" for digest, name in experiments)
        raise InputError(
            "--experiment",
            asked_name,
            f"is not in this store, which holds {names}",
            "write one of these names",
        )
    return chosen


def _simulated(
    experiment: Experiment, records: list[RunRecord], store: Store, watcher: Watcher
) -> list[RunRecord]:
    measured = [record for record in records if record.kind in MEASURED_KINDS]
    if not measured:
        return []
    watcher.note("simulating the measured runs")
    timeline = bool(store.with_timelines(measured[-1].digest))
    return missing.complete(
        experiment, records, session_name(), store, watcher, timeline=timeline, further=scattered
    )


SIDES = {POLICY: "measured", SIMULATED: "simulated"}


def lanes(results: Path, experiment: Found) -> list[Lanes]:
    """For each scheduler, the lanes of its first run with a timeline and of its simulation, else planned."""
    sides: dict[str, dict[str, Mapping[int, list[Span]]]] = defaultdict(dict)
    names = [scheduler_name(scheduler.table) for scheduler in experiment.experiment.schedulers]
    measured_first = sorted(experiment.records, key=lambda one: (one.kind != POLICY, one.cell, one.repeat))
    with Store(results, existing=True) as store:
        traced = store.with_timelines(experiment.experiment_digest)
        for record in (record for record in measured_first if record.id in traced):
            ours, side = sides[scheduler_name(record.scheduler)], SIDES.get(record.kind)
            if side and side not in ours:
                ours[side] = occupancy(spans_of(store, record))
    for record in measured_first:
        ours = sides[scheduler_name(record.scheduler)]
        if record.kind == POLICY and not ours and (slots := planned_slots(record)):
            ours[PLANNED] = slots
    return [Lanes(name, sides[name]) for name in sorted(filter(sides.get, sides), key=names.index)]


def spans_of(store: Store, record: RunRecord) -> list[Span]:
    return [span for rank, packed in _timelines(store, record) for span in spans(rank, packed)]


def messages_of(store: Store, record: RunRecord) -> list[tuple[int, Message]]:
    """The ends of messages that the ranks of a run recorded, each with the number of the job."""
    timelines = _timelines(store, record)
    return [(rank.job, message) for rank, packed in timelines for message in messages(rank, packed)]


def _timelines(store: Store, record: RunRecord) -> list[tuple[RankResult, bytes]]:
    packed = store.timelines(record.id or 0)
    places = [(rank, (rank.job, rank.rank)) for rank in record.ranks]
    return [(rank, packed[place]) for rank, place in places if place in packed]
