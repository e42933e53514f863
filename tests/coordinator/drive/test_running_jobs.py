"""What the driver makes of a decision, and how long it waits for the reason why a rank has gone."""

import time
from types import SimpleNamespace

import pytest

from coordinator import policies
from coordinator.decide.session import Plan
from coordinator.drive.preflight import LaunchPlan
from coordinator.drive.run_context import RunContext
from coordinator.drive.running_jobs import EXIT_S, RunningJobs
from coordinator.host.launchers import Hydra
from coordinator.host.rundir import RunDirectory
from coordinator.view import Decision, Slot
from coordinator.wire import protocol
from coordinator.workload import Node, ParallelJob, Workload
from workloads.program import Program
from workloads.work import Command

LEASE_S = 4.0


def jobs_of(directory, jobs, on, nodes=()):
    """The driver's part for these jobs, with ``on`` in the place of the nodes."""
    workload = Workload(jobs, policies.create("none", {}), (0, 1), nodes=nodes, lease_s=LEASE_S)
    plan = LaunchPlan(None, "", Hydra("/bin/false", "1"), {})
    context = RunContext(directory, workload, plan, lambda text: None, 1 << 62, time.monotonic_ns())
    return RunningJobs(context, None, on)


def running(directory, nodes, *, begun):
    """The one job of a run, whose two ranks are ready on the first node, or have begun there."""
    jobs = (ParallelJob(0, Program(phases=1, processes=2)),)
    part = jobs_of(directory, jobs, SimpleNamespace(node_of=(0, 0)), nodes)
    part.conductor = SimpleNamespace(is_over=lambda job: False, due_ns=lambda: None, lags=False)
    part.open.add(0)
    state = part.states[0]
    state.launched = (0, 1)
    state.ready = {0, 1}
    state.ranks = (0, 1) if begun else ()
    return part


@pytest.mark.parametrize(
    "nodes, begun, patience_s",
    [
        ((), True, EXIT_S),
        ((), False, EXIT_S),
        ((Node("a"),), True, EXIT_S),
        ((Node("a"),), False, LEASE_S + 1),
    ],
)
def test_a_job_whose_node_may_turn_out_to_be_lost_fails_later(tmp_path, nodes, begun, patience_s):
    """Its launcher tells the reason within EXIT_S; that a node is lost shows after its lease."""
    part = running(RunDirectory(tmp_path), nodes, begun=begun)
    before_ns = time.monotonic_ns()
    part.hear(0, protocol.OfRank(0, 1, protocol.RankGone()))
    (due_ns,) = part.dues_ns()
    assert part.states[0].failure == "rank 1 has gone"
    assert before_ns + patience_s * 1e9 <= due_ns < before_ns + (2 * patience_s + 1) * 1e9


def test_a_table_has_one_number_for_all_threads_of_a_rank_and_leaves_other_ranks_as_they_are(tmp_path):
    published = []
    everywhere = (0, 1, 2, 3)
    on = SimpleNamespace(node_of=(0,) * 4, publish=lambda plan, *_: published.append(plan.decision))
    programs = Command(("true",), processes=2, threads=2), Program(phases=1, processes=4)
    part = jobs_of(RunDirectory(tmp_path), tuple(map(ParallelJob, (0, 1), programs)), on)
    part.states[0].launched = (0, 2)
    part.states[1].launched = everywhere
    slot = Slot(((0, 1),) * 4, 1000, allowed_ranks=((0, 2), (0, 3), (1, 0), (1, 3)))
    part.publish(Plan(Decision({0: everywhere, 1: everywhere}, (slot,)), 0), 0)
    (decision,) = published
    assert decision.slots[0].allowed_ranks == ((0, 1), (1, 0), (1, 3))
    assert decision.placements == {0: (0, 2), 1: everywhere}
