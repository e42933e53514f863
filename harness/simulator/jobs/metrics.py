"""Metrics of a schedule: response, wait, slowdowns, utilisation, fairness."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from harness.simulator.jobs.model import WHOLE_NS, Floats, JobLevelOutcome
from workloads.machine import TAU_S
from workloads.validation import number, whole


@dataclass(frozen=True)
class Metrics:
    """Means over the jobs that count; a job that did not end makes its response time infinite."""

    jobs: int  # how many count
    response_s: float  # finish minus arrival
    wait_s: float  # first start minus arrival
    slowdown: float  # response over execution time on the processors the job asks for, alone
    bounded_slowdown: float  # the same with neither shorter than tau
    # Real execution time ratio, the response over the execution time alone on the processors that the job
    # had (Hori et al. 1996, section 4.1). Rigid jobs: the slowdown.
    retr: float
    processors: float  # mean partition size
    # Used CPU time over all CPU time from the first arrival that counts to the last finish.
    utilisation: float
    # Correlation of log2(size) with RETR; 0 is fair, above 0 large jobs wait longer; NaN if all sizes are
    # equal.
    fairness: float
    # See ``Fragmentation``, of the whole schedule; None under policies without regions.
    internal: float | None = None
    external: float | None = None
    missed: float | None = None
    # See ``Relocated``, of the whole schedule; None under policies that relocate no job.
    moves: float | None = None
    vacated: float | None = None
    lost_s: float | None = None
    paid_s: float | None = None

    def row(self) -> Mapping[str, float | int | None]:
        """The values by name, without those that the policy has not; None for a value that is not finite."""
        return {
            name: value if isinstance(value, int) or np.isfinite(value) else None
            for name, value in vars(self).items()
            if value is not None
        }


def measure(
    outcome: JobLevelOutcome, *, warm_up: int = 0, last: int | None = None, tau_s: float = TAU_S
) -> Metrics:
    """The metrics of the jobs from number ``warm_up`` up to, but not including, ``last``.

    Raises:
        InputError: if none is left, or ``tau_s`` is not above 0.
    """
    whole("warm_up", warm_up, minimum=0, maximum=len(outcome.jobs) - 1)
    number("tau_s", tau_s, above=0)
    part = slice(warm_up, last)
    size = outcome.size[part]
    response_s = outcome.response_s[part]
    retr = response_s / np.maximum(outcome.alone_s[part], 1 / WHOLE_NS)
    return Metrics(
        jobs=len(response_s),
        response_s=float(response_s.mean()),
        wait_s=float(outcome.wait_s[part].mean()),
        slowdown=float((response_s / np.maximum(outcome.asked_s[part], 1 / WHOLE_NS)).mean()),
        bounded_slowdown=float(bounded_slowdowns(outcome, tau_s)[part].mean()),
        retr=float(retr.mean()),
        processors=float(size.mean()),
        utilisation=_utilisation(outcome, part),
        fairness=fairness(outcome.asked[part].astype(float), retr),
        **(asdict(outcome.fragmentation) if outcome.fragmentation else {}),
        **(asdict(outcome.relocations) if outcome.relocations else {}),
    )


def bounded_slowdowns(outcome: JobLevelOutcome, tau_s: float) -> Floats:
    """The bounded slowdown of each job, at least 1; infinite if it did not end."""
    slowdowns: Floats = np.maximum(1.0, outcome.response_s / np.maximum(outcome.asked_s, tau_s))
    return slowdowns


BATCHES = 20
LEAST_BATCHES = 5
LEAST_IN_A_BATCH = 10
FEWEST_JOBS = LEAST_BATCHES * LEAST_IN_A_BATCH
"""Jobs that an interval by batch means takes."""


def in_batches(values: Floats) -> list[Floats]:
    """Values of jobs in a row, in batches whose means count as independent; none for too few values.

    Values of jobs that follow each other depend on each other, means of long batches hardly.
    Source: Law and Kelton 2000, "Simulation Modeling and Analysis", section 9.5.3.
    """
    batches = min(BATCHES, len(values) // LEAST_IN_A_BATCH)
    return np.array_split(values, batches) if batches >= LEAST_BATCHES else []


def batch_slowdowns(outcome: JobLevelOutcome, warm_up: int, tau_s: float) -> list[float]:
    """The mean bounded slowdown of each batch of jobs, or of all if they are few; none if one did not end."""
    slowdowns = bounded_slowdowns(outcome, tau_s)[warm_up:]
    if not np.isfinite(slowdowns).all():
        return []
    return [float(part.mean()) for part in in_batches(slowdowns) or [slowdowns]]


def fairness(size: Floats, retr: Floats) -> float:
    """Correlation coefficient of log2(size) with RETR (Hori et al. 1996, section 4.4)."""
    ended = np.isfinite(retr)
    size = np.log2(size[ended])
    retr = retr[ended]
    if len(size) < 2 or np.ptp(size) == 0 or np.ptp(retr) == 0:
        return float("nan")
    return float(np.corrcoef(size, retr)[0, 1])


def _utilisation(outcome: JobLevelOutcome, part: slice) -> float:
    ended = outcome.finished[part]
    if not ended.any():
        return 0.0
    size = outcome.size[part][ended]
    jobs = outcome.jobs
    own_s = outcome.alone_s[part][ended]
    span_s = (outcome.finish_ns[part][ended].max() - jobs.submit_ns[part].min()) / WHOLE_NS
    return float((own_s * size).sum() / (outcome.processors * span_s))


def utilisation_over_time(outcome: JobLevelOutcome, parts: int) -> tuple[Floats, Floats]:
    """Middle of each of ``parts`` equal intervals, in seconds, and the share of processors used in it.

    The work of a job is spread evenly from its start to its end. This is exact for jobs that run
    to completion, and smooths time sharing.
    """
    ended = outcome.finished
    start = outcome.start_ns[ended] / WHOLE_NS
    finish = outcome.finish_ns[ended] / WHOLE_NS
    size = outcome.size[ended]
    jobs = outcome.jobs
    own_s = outcome.alone_s[ended]
    rate = size * own_s / np.maximum(finish - start, 1 / WHOLE_NS)
    edges = np.linspace(jobs.submit_ns.min() / WHOLE_NS, finish.max(), parts + 1)
    times = np.concatenate([start, finish])
    changes = np.concatenate([rate, -rate])
    order = np.argsort(times, kind="stable")
    times = times[order]
    busy = np.cumsum(changes[order])
    done = np.concatenate([[0.0], np.cumsum(busy[:-1] * np.diff(times))])
    share = np.diff(np.interp(edges, times, done)) / np.diff(edges) / outcome.processors
    return (edges[1:] + edges[:-1]) / 2, share
