"""What a simulation of space sharing reads and changes; there are n jobs and P processors."""

from typing import Any, NamedTuple

import numpy as np

from coordinator.policies import allocation, predictions
from harness.simulator.jobs.execution import Arrivals
from harness.simulator.jobs.model import Columns, Floats, Integers, Times

IN_ORDER, ON_BLOCKS, MALLEABLE = range(3)
"""How jobs get processors: in the order of the queue, and keep them; on buddy blocks, the same; or all that
are present share them again at every event."""


class Scheme(NamedTuple):
    """What a policy of space sharing is to the simulator; see :mod:`coordinator.policies.allocation`."""

    kind: int = IN_ORDER
    rule: int = allocation.FIXED
    limit: int = 0
    """For the rule FIXED."""
    bound: int = allocation.LARGEST
    share: int = allocation.EQUAL
    order: allocation.Order = allocation.ORDERS[0]
    rigid: bool = False
    """Whether jobs get all processors that they ask for."""
    backfilling: int = allocation.NONE
    estimate: int = predictions.USER
    """Whose estimates they go by."""
    direction: int = 0
    """With a queue for each block size, the next larger (1) or smaller size (-1) is next; 0: one queue."""


COUNTS = ("time_ns", "free", "total", "running", "unfinished", "first", "last", "current", "steps", "settled")
"""What a simulation has come to: the time, the number of free processors, the weight of all jobs present, how
many run, how many of the watched ones have not ended, the places in the queue of the first job and behind the
last one, which of the queues for blocks is served, how many steps a plan has, and whether no job of it could
start earlier."""
NOW = np.dtype([(name, np.int64) for name in COUNTS], align=True)


class Expected(NamedTuple):
    """The running jobs in ascending order of the ends that users estimate, for backfilling; P + 1 entries."""

    estimates_ns: Integers
    """(n,) of each job, or predictions; empty if neither backfilling nor the order of the queue uses them."""
    ends_ns: Integers
    held: Integers
    owner: Integers


class History(NamedTuple):
    """What predictions come from (:class:`coordinator.policies.predictions.LastTwo`); empty without them."""

    estimates_ns: Integers
    """(n,) the users' estimates."""
    user: Integers
    """(n,) whose each job is, from 0; -1 if that is unknown."""
    last_ns: Integers
    """(users,) the last run time of each, -1 if there is none."""
    before_ns: Integers
    """(users,) the one before."""


class Reservations(NamedTuple):
    """The free processors as jobs have them reserved, for conservative backfilling; empty without it."""

    begins_ns: Integers
    """The steps, see :func:`coordinator.policies.backfilling.earliest`."""
    free: Integers
    starts_ns: Integers
    """(n,) when each job starts at the latest, NEVER_NS before it arrives."""


class Blocks(NamedTuple):
    """The free blocks (:mod:`coordinator.policies.scan`), and the jobs that wait for them."""

    free: Integers
    counts: Integers
    levels: Integers
    """(n,) the size that each job needs: its base-2 logarithm, rounded up."""
    heads: Integers
    """The queues are linked lists; -1 closes a list."""
    tails: Integers
    following: Integers


class Shares(NamedTuple):
    """Of malleable jobs that have begun."""

    ends_ns: Integers
    """(n,) when each ends on its present processors."""
    since_ns: Integers
    """(n,) since when it has had them."""
    held_ns: Floats
    """(n,) CPU time that it had before."""
    caps: Integers
    """(P,) scratch, as ``parts``."""
    parts: Integers


class Case(NamedTuple):
    """One simulation."""

    scheme: Scheme
    rule: allocation.Rule
    watched: int
    until_last: bool
    """Whether the last arrival stops the simulation as saturated."""
    now: Any
    """One record of NOW."""
    jobs: Columns
    demands: allocation.Demands
    arrivals: Arrivals
    keys: Floats
    """(n,) the order of the queue, the smallest first; empty if it is the order of arrival, or changes."""
    scores: Floats
    """(n,) scratch: the order of a queue that changes while jobs wait; else empty."""
    queue: Integers
    """(n,) the waiting jobs, in order; of malleable jobs also those that have processors."""
    grants: Integers
    """(P + 1,) what jobs at the front of the queue get, or scratch."""
    ends_ns: Integers
    """(P + 1,) a heap with ``ending``: when the running jobs end; of malleable jobs, those that end next."""
    ending: Integers
    expected: Expected
    history: History
    reservations: Reservations
    blocks: Blocks
    shares: Shares
    times: Times
    size: Integers
    """(n,) processors of each job."""
    first: Integers
    """(n,) the lowest processor of a job on a block, else -1."""
