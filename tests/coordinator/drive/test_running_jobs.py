"""How long the driver waits for the reason why a rank has gone."""

import time
from types import SimpleNamespace

import pytest

from coordinator import policies
from coordinator.drive.preflight import LaunchPlan
from coordinator.drive.run_context import RunContext
from coordinator.drive.running_jobs import EXIT_S, RunningJobs
from coordinator.host.launchers import Hydra
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.workload import Node, ParallelJob, Workload
from workloads.program import Program

LEASE_S = 4.0


def running(directory, nodes, *, begun):
    """The one job of a run, whose two ranks are ready on the first node, or have begun there."""
    jobs = (ParallelJob(0, Program(phases=1, processes=2)),)
    workload = Workload(jobs, policies.create("none", {}), (0, 1), nodes=nodes, lease_s=LEASE_S)
    plan = LaunchPlan(None, "", Hydra("/bin/false", "1"), {})
    context = RunContext(directory, workload, plan, lambda text: None, 1 << 62, time.monotonic_ns())
    part = RunningJobs(context, None, SimpleNamespace(node_of=(0, 0)))
    part.conductor = SimpleNamespace(is_over=lambda job: False, due_ns=lambda: None)
    state = part.states[0]
    state.launched, state.ready, state.ranks = (0, 1), {0, 1}, (0, 1) if begun else ()
    return part


@pytest.mark.parametrize(
    ("nodes", "begun", "patience_s"),
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
