"""The front door: jobs under a policy, by a compiled kernel where there is one."""

from collections.abc import Callable, Collection, Iterable
from functools import partial

from coordinator.migration import Migration
from coordinator.owners import OwnerChange
from coordinator.policies import Policy
from coordinator.policies.adaptive import RunToCompletion
from coordinator.policies.dqt import FairQueueTree, QueueTree
from coordinator.policies.dynamic import DynamicEquipartition
from coordinator.policies.scan import OnBlocks
from coordinator.topology import FLAT, Topology
from harness.simulator.jobs import event_by_event, space, tree
from harness.simulator.jobs.case import MALLEABLE, ON_BLOCKS, Scheme
from harness.simulator.jobs.model import JobLevelOutcome, Jobs
from workloads.validation import whole


def simulate(
    jobs: Jobs,
    processors: int,
    policy: Policy,
    watched: int | None = None,
    topology: Topology = FLAT,
    owners: Iterable[OwnerChange] = (),
    migration: Migration | None = None,
    lost: Collection[int] = (),
) -> JobLevelOutcome:
    """Simulate ``jobs`` on ``processors`` processors; the same arguments give the same outcome.

    If only the first ``watched`` of a stream of jobs matter, the simulation stops when these have ended. A
    policy that has not finished them when the last job of the stream arrives is saturated.

    ``owners`` and ``migration`` matter to policies that heed owners, or relocate jobs; the ``lost``
    processors are faulty from the beginning.
    Jobs that can start with fewer processors than they can use are malleable under
    ``dyn-equi`` and moldable under all other policies.

    Raises:
        InputError: for a job larger than what the machine has left, no processors at all, or a policy
            that leaves the processors to the local scheduler.
    """
    whole("processors", processors, minimum=1)
    jobs.check(processors, len(lost))
    # The kernels count free processors, or halve the machine: they know no processor that is missing.
    if not lost and (run := kernel(policy, jobs, processors, watched)):
        return run()
    malleable = isinstance(policy, DynamicEquipartition)
    return event_by_event.simulate(
        jobs,
        processors,
        policy,
        malleable=malleable,
        topology=topology,
        owners=owners,
        migration=migration,
        lost=lost,
    )[0]


def kernel(
    policy: Policy, jobs: Jobs, processors: int, watched: int | None
) -> Callable[[], JobLevelOutcome] | None:
    """The compiled simulation of ``policy``, None if there is none for these jobs and this machine.

    It gives the same outcome as asking the policy at every event. Distributed queue trees are an
    exception: arrivals wait for the next quantum, and jobs end with a quantum.
    """
    scheme = None
    power_of_two = processors & (processors - 1) == 0
    rigid = bool((jobs.min_processes == jobs.max_processes).all())
    match policy:
        case RunToCompletion():
            scheme = Scheme(
                rule=policy.rule,
                limit=policy.limit(processors),
                bound=policy.bound,
                share=policy.share,
                order=policy.queue_order(),
                rigid=policy.rigid,
                backfilling=policy.backfilling(),
                estimate=policy.estimating(),
            )
        case DynamicEquipartition() if (jobs.min_processes == 1).all() and not policy.reacts_to_phases:
            scheme = Scheme(MALLEABLE)
        case OnBlocks() if power_of_two:
            scheme = Scheme(ON_BLOCKS, rigid=True, direction=policy.step)
        case QueueTree() | FairQueueTree() if power_of_two and rigid and jobs.following is None:
            return partial(tree.simulate, jobs, processors, policy.fair, policy.quantum_ns)
    return partial(space.simulate, jobs, processors, scheme, watched) if scheme else None
