"""Schedules of jobs, written: the Standard Workload Format 2.2, processors of each job, a table of jobs."""

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from coordinator.topology import Runs, joined, written
from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Floats, Integers, JobLevelOutcome

UNKNOWN = -1

LINE = "{} {:.10g} {:.10g} {:.10g} {:.10g} {:.10g} -1 {:.10g} {:.10g} -1 {}" + 7 * " -1"
"""Of what a job has: number, submission, wait, run time, processors, CPU time, processors and time requested,
and status."""


def columns(outcome: JobLevelOutcome) -> dict[str, Floats]:
    """What is known of each job by the names of Batsim: times in seconds, UNKNOWN for what did not happen."""
    jobs = outcome.jobs
    begun = outcome.start_ns < NEVER_NS
    ended = outcome.finished
    submit_s, start_s, finish_s = (
        times / WHOLE_NS for times in (jobs.submit_ns, outcome.start_ns, outcome.finish_ns)
    )
    spent_s = finish_s - submit_s
    return {
        "submission_time": submit_s,
        "requested_number_of_resources": jobs.max_processes,
        "requested_time": jobs.estimates_ns() / WHOLE_NS,
        "success": ended.astype(int),
        "starting_time": np.where(begun, start_s, UNKNOWN),
        "execution_time": np.where(ended, (outcome.finish_ns - outcome.start_ns) / WHOLE_NS, UNKNOWN),
        "finish_time": np.where(ended, finish_s, UNKNOWN),
        "waiting_time": np.where(begun, (outcome.start_ns - jobs.submit_ns) / WHOLE_NS, UNKNOWN),
        "turnaround_time": np.where(ended, spent_s, UNKNOWN),
        "stretch": np.where(ended, spent_s / np.maximum(outcome.asked_s, 1 / WHOLE_NS), UNKNOWN),
    }


def write(path: Path, outcome: JobLevelOutcome, numbers: Integers, *, policy: str) -> None:
    """Write an outcome as SWF 2.2; gzipped if ``path`` ends in .gz. The same outcome gives the same bytes."""
    lines = [
        "; Version: 2.2",
        "; Computer: simulated by Lockstep",
        f"; Note: scheduled by {policy}",
        f"; MaxJobs: {len(numbers)}",
        f"; MaxProcs: {outcome.processors}",
    ]
    table = columns(outcome)
    table["size"] = np.where(outcome.start_ns < NEVER_NS, np.rint(outcome.size), UNKNOWN)
    requested = ("requested_number_of_resources", "requested_time", "success")
    names = ("submission_time", "waiting_time", "execution_time", "size", "execution_time", *requested)
    # Lists, since numbers of NumPy take several times as long to format, one by one.
    lines += map(LINE.format, numbers.tolist(), *(table[name].tolist() for name in names))
    text = "\n".join(lines) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data, 6, mtime=0) if path.suffix == ".gz" else data)


PLACEMENT_VERSION = 1


def write_placement(path: Path, outcome: JobLevelOutcome, numbers: Integers) -> None:
    """Write the processors of each job: a line ``job start_s finish_s processors``, in order of start.

    Processors are ranges such as ``0-3,8``.
    """
    lines = [f"# placement {PLACEMENT_VERSION}: job start_s finish_s processors"]
    for job, place in placements(outcome):
        start_s = outcome.start_ns[job] / WHOLE_NS
        finish_s = outcome.finish_ns[job] / WHOLE_NS if outcome.finish_ns[job] < NEVER_NS else UNKNOWN
        lines.append(f"{numbers[job]} {start_s:.10g} {finish_s:.10g} {written(place)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def placements(outcome: JobLevelOutcome) -> Iterator[tuple[int, Runs]]:
    """The jobs that ran with their processors, in order of start; nothing if places change.

    If the policy takes any free processors, a job gets the lowest ones that are free.
    """
    if outcome.places == {}:
        return
    begun = np.flatnonzero(outcome.start_ns < NEVER_NS)
    held: dict[int, Runs] = {}
    free: Runs = [(0, outcome.processors - 1)]
    ends = sorted((int(outcome.finish_ns[i]), int(i)) for i in begun)
    gone = 0
    for job in sorted(begun.tolist(), key=lambda i: (outcome.start_ns[i], i)):
        start_ns = int(outcome.start_ns[job])
        while gone < len(ends) and ends[gone][0] <= start_ns:
            if ends[gone][1] in held:
                free = joined([*free, *held.pop(ends[gone][1])])
            gone += 1
        size = round(outcome.size[job])
        first = int(outcome.first[job])
        if outcome.places is not None:
            yield job, outcome.places[job]
        elif first >= 0:
            yield job, [(first, first + size - 1)]
        else:
            held[job], free = _lowest(free, size)
            yield job, held[job]


def _lowest(free: Runs, count: int) -> tuple[Runs, Runs]:
    """The ``count`` lowest processors of ``free``, and the others."""
    taken: list[tuple[int, int]] = []
    for place, (first, last) in enumerate(free):
        if count < last - first + 1:
            part = [(first, first + count - 1)] if count else []
            return [*taken, *part], [(first + count, last), *free[place + 1 :]]
        taken.append((first, last))
        count -= last - first + 1
    return taken, []


def write_jobs(path: Path, outcome: JobLevelOutcome, numbers: Integers) -> None:
    """Write a line for each job as comma-separated values, with the columns of Batsim, which evalys reads.

    Processors are ranges such as ``0-3 8``, empty where they change.

    Source: Batsim, "Output files: jobs"; evalys, ``JobSet.columns``.
    """
    table = columns(outcome)
    places = dict(placements(outcome))
    rows = zip(*(column.tolist() for column in table.values()), strict=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["job_id", "workload_name", *table, "allocated_resources"])
        for job, values in enumerate(rows):
            place = written(places.get(job, ())).replace(",", " ")
            writer.writerow([numbers[job], "lockstep", *map("{:.10g}".format, values), place])
