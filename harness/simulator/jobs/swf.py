"""Schedules of jobs, written: the Standard Workload Format 2.2, processors of each job, a table of jobs."""

import csv
import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from coordinator.topology import ranges
from harness.simulator.jobs.model import NEVER_NS, WHOLE_NS, Integers, JobLevelOutcome

UNKNOWN = -1


def write(path: Path, outcome: JobLevelOutcome, *, policy: str, numbers: Integers | None = None) -> None:
    """Write an outcome as SWF 2.2, times in seconds; gzipped if ``path`` ends in .gz.

    The same outcome gives the same bytes.
    """
    jobs = outcome.jobs
    numbers = np.arange(1, len(jobs) + 1) if numbers is None else numbers
    lines = [
        "; Version: 2.2",
        "; Computer: simulated by Lockstep",
        f"; Note: scheduled by {policy}",
        f"; MaxJobs: {len(jobs)}",
        f"; MaxProcs: {outcome.processors}",
    ]
    asked_s = jobs.estimates_ns() / WHOLE_NS
    for i in range(len(jobs)):
        begun, ended = outcome.start_ns[i] < NEVER_NS, outcome.finish_ns[i] < NEVER_NS
        wait = (outcome.start_ns[i] - jobs.submit_ns[i]) / WHOLE_NS if begun else UNKNOWN
        run = (outcome.finish_ns[i] - outcome.start_ns[i]) / WHOLE_NS if ended else UNKNOWN
        size = round(outcome.size[i]) if begun else UNKNOWN
        fields = [jobs.submit_ns[i] / WHOLE_NS, wait, run, size, run, -1, jobs.most[i], asked_s[i], -1]
        fields += [int(ended), *[-1] * 7]
        lines.append(" ".join([str(numbers[i]), *(f"{field:.10g}" for field in fields)]))
    text = "\n".join(lines) + "\n"
    data = text.encode()
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


PLACEMENT_VERSION = 1

COLUMNS = (
    *("job_id", "workload_name", "submission_time", "requested_number_of_resources", "requested_time"),
    *("success", "starting_time", "execution_time", "finish_time", "waiting_time", "turnaround_time"),
    *("stretch", "allocated_resources"),
)
"""Of a table of jobs."""


def write_placement(path: Path, outcome: JobLevelOutcome, numbers: Integers | None = None) -> None:
    """Write the processors of each job: a line ``job start_s finish_s processors``, in order of start.

    Jobs have their ``numbers``, else they are numbered from 1; processors are ranges such as ``0-3,8``.
    """
    numbers = np.arange(1, len(outcome.jobs) + 1) if numbers is None else numbers
    lines = [f"# placement {PLACEMENT_VERSION}: job start_s finish_s processors"]
    for job, place in placements(outcome):
        start_s = outcome.start_ns[job] / WHOLE_NS
        finish_s = outcome.finish_ns[job] / WHOLE_NS if outcome.finish_ns[job] < NEVER_NS else UNKNOWN
        lines.append(f"{numbers[job]} {start_s:.10g} {finish_s:.10g} {ranges(place)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def placements(outcome: JobLevelOutcome) -> Iterator[tuple[int, Sequence[int]]]:
    """The jobs that ran with their processors, ascending, in order of start; nothing if places change.

    If the policy takes any free processors, a job gets the lowest ones that are free.
    """
    if outcome.places == {}:
        return
    begun = np.flatnonzero(outcome.start_ns < NEVER_NS)
    held: dict[int, Sequence[int]] = {}
    free: Sequence[int] = list(range(outcome.processors))
    ends = sorted((int(outcome.finish_ns[i]), int(i)) for i in begun)
    gone = 0
    for job in sorted(begun.tolist(), key=lambda i: (outcome.start_ns[i], i)):
        start_ns = int(outcome.start_ns[job])
        while gone < len(ends) and ends[gone][0] <= start_ns:
            if ends[gone][1] in held:
                free = sorted([*free, *held.pop(ends[gone][1])])
            gone += 1
        size = round(outcome.size[job])
        first = int(outcome.first[job])
        if outcome.places is not None:
            yield job, outcome.places[job]
        elif first >= 0:
            yield job, range(first, first + size)
        else:
            held[job], free = free[:size], free[size:]
            yield job, held[job]


def write_jobs(path: Path, outcome: JobLevelOutcome, numbers: Integers | None = None) -> None:
    """Write a line for each job as comma-separated values, with the columns of Batsim, which evalys reads.

    Times are in seconds, -1 for what did not happen; processors are ranges such as ``0-3 8``, empty where
    they change.

    Source: Batsim, "Output files: jobs"; evalys, ``JobSet.columns``.
    """
    jobs, places = outcome.jobs, dict(placements(outcome))
    numbers = np.arange(1, len(jobs) + 1) if numbers is None else numbers
    begun, ended = outcome.start_ns < NEVER_NS, outcome.finished
    asked_s = jobs.estimates_ns() / WHOLE_NS
    submit_s, start_s, finish_s = (
        times / WHOLE_NS for times in (jobs.submit_ns, outcome.start_ns, outcome.finish_ns)
    )
    spent_s = finish_s - submit_s
    known = [(start_s, begun), (finish_s - start_s, ended), (finish_s, ended), (start_s - submit_s, begun)]
    known += [(spent_s, ended), (spent_s / np.maximum(outcome.asked_s, 1 / WHOLE_NS), ended)]
    columns = [np.where(there, times, UNKNOWN) for times, there in known]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for i, number in enumerate(numbers):
            asked = [int(jobs.most[i]), f"{asked_s[i]:.10g}", int(ended[i])]
            told = [f"{column[i]:.10g}" for column in columns]
            place = ranges(places.get(i, ())).replace(",", " ")
            writer.writerow([int(number), "lockstep", f"{submit_s[i]:.10g}", *asked, *told, place])
