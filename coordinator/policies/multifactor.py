"""The queue of most clusters: Slurm's multifactor priority, with or without backfilling."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from operator import mul
from typing import Annotated, Any, NamedTuple, Self

from coordinator.policies import fair_share, partitions
from coordinator.policies.fair_share import Association
from coordinator.policies.ordered import BACKFILLS, Ordered
from coordinator.policies.registry import Policy, register
from coordinator.view import Decision, Job, Reason, View
from workloads.parameters import Bounds, Numbers, OneOf, TableOfNumbers

MOST = 2**32 - 1
"""The greatest priority."""

WEEK_S = 7 * 86_400.0

Weight = Annotated[int, Bounds(0, MOST)]
"""What a factor of 1 is worth."""

Priorities = Annotated[Numbers, TableOfNumbers(Bounds(0, MOST, whole=True))]
Shares = Annotated[Numbers, TableOfNumbers(Bounds(0, 1e9))]

FAIR_SHARES = {"tree": fair_share.fair_tree, "classic": fair_share.classic}
"""Algorithms of the factor of fair share by name."""


class Factors(NamedTuple):
    """The factors of a job's priority, each from 0 to 1."""

    age: float
    fair_share: float
    job_size: float
    partition: float
    qos: float


@dataclass(frozen=True)
class Usage:
    """What has been used up to ``at_ns``, and by whom processors are held from then on.

    Attributes:
        at_ns: the time of the last decision.
        used_s: processor seconds that still count.
        held: processors.
        queue: the state of the queue itself.
    """

    at_ns: int = 0
    used_s: Mapping[Association, float] = field(default_factory=dict)
    held: Mapping[Association, int] = field(default_factory=dict)
    queue: Any = None

    def until(self, now_ns: int, half_life_s: float) -> Self:
        """The same at ``now_ns``: half of a usage is forgotten in ``half_life_s``, none if that is 0."""
        passed_s = (now_ns - self.at_ns) / 1e9
        left, counted_s = 1.0, passed_s
        if half_life_s:
            left = 2.0 ** (-passed_s / half_life_s)
            counted_s = half_life_s / math.log(2.0) * (1.0 - left)
        used_s = {one: used * left for one, used in self.used_s.items()}
        for one, processors in self.held.items():
            used_s[one] = used_s.get(one, 0.0) + processors * counted_s
        return replace(self, at_ns=now_ns, used_s=used_s)


def _association(job: Job) -> Association:
    """Whose job it is; it may name its account from the root on, as ``account_shares`` does."""
    return Association(job.submitter.account.rpartition("/")[2], job.submitter.user)


@register("multifactor")
class Multifactor(Policy):
    """Jobs wait by the weighted sum of Slurm's factors, the greatest priority first.

    Options and defaults are Slurm's, in small letters. A priority is a whole number; jobs with the same wait
    in order of arrival.

    Attributes:
        backfill: "easy" keeps the earliest start of the first job, "conservative" that of each job.
        priority_weight_age: of the time that a job has waited, at most the maximum age.
        priority_weight_fairshare: of how far an account and its user are below their shares.
        priority_weight_job_size: of the share of the machine that a job asks for.
        priority_weight_partition: of its partition.
        priority_weight_qos: of its quality of service.
        priority_max_age_s: the wait from which on the factor of age is 1.
        priority_decay_half_life_s: the time in which half of a usage is forgotten; 0: nothing ever is.
        priority_favor_small: whether small jobs have the greater factor of size.
        fair_share: "tree" as Slurm by default, "classic" as with PriorityFlags=NO_FAIR_TREE.
        account_shares: the shares of accounts, which have names from the root on ("physics/optics"); else 1.
        user_shares: the shares of users in an account ("optics/ann"); else 1.
        priority_job_factor: of each partition, relative to the greatest; else 1.
        qos_priority: of each quality of service, relative to the greatest; else 0.
        processors_per_node: the processors of a node; jobs ask for whole nodes, which counts in their sizes.
    """

    backfill: Annotated[str, OneOf(tuple(BACKFILLS))] = "easy"
    priority_weight_age: Weight = 0
    priority_weight_fairshare: Weight = 0
    priority_weight_job_size: Weight = 0
    priority_weight_partition: Weight = 0
    priority_weight_qos: Weight = 0
    priority_max_age_s: Annotated[float, Bounds(1e-3, 1e9)] = WEEK_S
    priority_decay_half_life_s: Annotated[float, Bounds(0, 1e9)] = WEEK_S
    priority_favor_small: bool = False
    fair_share: Annotated[str, OneOf(tuple(FAIR_SHARES))] = "tree"
    account_shares: Shares = Numbers()
    user_shares: Shares = Numbers()
    priority_job_factor: Priorities = Numbers()
    qos_priority: Priorities = Numbers()
    processors_per_node: Annotated[int, Bounds(1, 1_000_000)] = 1
    source = "Slurm 22.05, Multifactor Priority Plugin (slurm.schedmd.com/priority_multifactor.html)"

    def __post_init__(self) -> None:
        super().__post_init__()
        fair_share.check(self.account_shares, self.user_shares)

    def decide(self, view: View, reason: Reason) -> Decision:
        """Let the jobs of a queue start and be backfilled as if they had arrived in order of priority."""
        waiting = partitions.waiting(view, partitions.still_running(view))
        priorities = self.priorities(view, waiting)
        waits = {job.number for job in waiting}
        line = (
            *(job for job in view.jobs if job.number not in waits),
            *sorted(waiting, key=lambda job: -priorities[job.number]),
        )
        before = self._usage(view)
        # Priorities change, so that conservative reservations are made again, as Slurm's backfilling does.
        queue = before.queue and replace(before.queue, starts_ns={})
        previous = view.previous and replace(view.previous, state=queue)
        decision = Ordered(backfill=self.backfill).decide(replace(view, jobs=line, previous=previous), reason)
        held: Counter[Association] = Counter()
        for job in view.jobs:
            held[_association(job)] += len(decision.placements.get(job.number, ()))
        return replace(decision, state=replace(before, held=+held, queue=decision.state))

    def _usage(self, view: View) -> Usage:
        usage: Usage = view.state or Usage()
        return usage.until(view.now_ns, self.priority_decay_half_life_s)

    def priorities(self, view: View, jobs: Collection[Job]) -> dict[int, int]:
        """The priority of each of these waiting jobs: a whole number from 1 to MOST."""
        weights = (
            self.priority_weight_age,
            self.priority_weight_fairshare,
            self.priority_weight_job_size,
            self.priority_weight_partition,
            self.priority_weight_qos,
        )
        nice = {job.number: job.submitter.nice for job in jobs}
        return {
            number: int(min(MOST, max(1.0, sum(map(mul, factors, weights)) - nice[number])))
            for number, factors in self.factors(view, jobs).items()
        }

    def factors(self, view: View, jobs: Collection[Job]) -> dict[int, Factors]:
        """The factors of each of these waiting jobs."""
        shares: dict[Association, float] = {}
        if self.priority_weight_fairshare:
            here = map(_association, view.jobs)
            used_s = self._usage(view).used_s
            tree = fair_share.tree(self.account_shares, self.user_shares, used_s, here)
            shares = FAIR_SHARES[self.fair_share](tree)
        of_partition, of_qos = _relative(self.priority_job_factor, 1), _relative(self.qos_priority, 0)
        return {
            job.number: Factors(
                min(1.0, (view.now_ns - job.arrival_ns) / 1e9 / self.priority_max_age_s),
                shares.get(_association(job), 0.0),
                self._size(job.processes, view.machine.processors),
                of_partition(job.submitter.partition),
                of_qos(job.submitter.qos),
            )
            for job in jobs
        }

    def _size(self, processes: int, processors: int) -> float:
        """The mean of a job's shares of the nodes and of the processors, or what they leave to others."""
        nodes, every = -(-processes // self.processors_per_node), -(-processors // self.processors_per_node)
        if self.priority_favor_small:
            nodes = every - nodes
            processes = processors - processes
        return (nodes / every + processes / processors) / 2.0


def _relative(values: Numbers, usual: int) -> Callable[[str], float]:
    """The value of a name, or the usual one, over the greatest of all."""
    of_name = dict(values)
    greatest = max(usual, *of_name.values(), 0)
    return lambda name: of_name.get(name, usual) / greatest if greatest else 0.0
