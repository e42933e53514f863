"""The files of a schedule, which ``simulate -o`` writes alongside the store for other programs."""

from collections.abc import Iterator
from pathlib import Path

from harness.simulator.jobs import kept_outcome, swf
from harness.spec.naming import scheduler_name
from harness.store.records import RunRecord
from workloads.validation import written


def write(folder: Path, record: RunRecord) -> Iterator[Path]:
    """Write the schedule, if the record has one; yields the paths of its files.

    They are SWF, a table of the jobs and, if each job has its processors to the end, the placement.
    """
    schedule = record.schedule
    if schedule is None or not schedule.outcome:
        return
    outcome, numbers = kept_outcome.known(schedule.outcome, schedule.processors)
    first = f"{schedule.source['place']:02d}-{record.scheduler['policy']}"
    path, jobs, placement = (folder / f"{first}{suffix}" for suffix in (".swf.gz", ".csv", ".placement"))
    refusal = "cannot be written", "make room, or give another directory, and continue with --resume"
    with written("--output", path, *refusal):
        swf.write(path, outcome, numbers, policy=scheduler_name(record.scheduler))
    with written("--output", jobs, *refusal):
        swf.write_jobs(jobs, outcome, numbers)
    yield from (path, jobs)
    if outcome.places != {}:
        with written("--output", placement, *refusal):
            swf.write_placement(placement, outcome, numbers)
        yield placement
