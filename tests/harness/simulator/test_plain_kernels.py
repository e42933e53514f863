"""Kernels without a compiler: of jobs against the policies themselves, of processes against the reference."""

import random

import numpy as np
import pytest
from naive_simulator.comparison import compare
from naive_simulator.simulation import NaiveSimulation
from plain_simulator import plain_simulator

from coordinator import policies
from harness.simulator.jobs import event_by_event
from harness.simulator.jobs.model import Jobs
from workloads.locks.lock_program import LockProgram
from workloads.options import Options, Remedy
from workloads.program import Program

S = 1_000_000_000
WITH_KERNELS = {"fcfs", "easy", "equipartition", "knee", "scan-up", "scan-down", "rtc-sdf"}


NAMES = ("jobs.simulate", "processes.simulate", "processes.machine", "processes.skipping", "processes.state")


@pytest.fixture(scope="module")
def plain():
    with plain_simulator() as module:
        yield {name: module(name) for name in NAMES}


def some_jobs(draw, processors, moldable):
    """Eight jobs whose times are whole seconds, some of them at once."""
    count = 8
    most = np.array([draw.randint(1, processors) for _ in range(count)])
    free = np.full(count, moldable)
    arrivals = np.cumsum([draw.randint(0, 4) for _ in range(count)]) * S
    work = np.array([draw.randint(1, 12) for _ in range(count)]) * most
    alpha, beta = (np.array([draw.randint(0, 2) for _ in range(count)]) * free for _ in range(2))
    factor = np.array([draw.randint(1, 3) for _ in range(count)])
    real = [column.astype(float) for column in (work, alpha, beta, factor)]
    return Jobs(arrivals, np.where(free, 1, most), most, *real)


@pytest.mark.parametrize("moldable", [False, True])
def test_kernels_of_jobs_decide_as_their_policies(plain, moldable):
    draw, compared = random.Random(3), set()
    for name in policies.known():
        policy = policies.create(name, {"quantum_ms": 1000} if "dqt" in name else {})
        for processors in (4, draw.choice([1, 3, 5, 8])):
            jobs = some_jobs(draw, processors, moldable)
            run = plain["jobs.simulate"].kernel(policy, jobs, processors, None)
            if run is not None:
                fast = run()
                slow, _ = event_by_event.simulate(jobs, processors, policy, malleable=name == "dyn-equi")
                np.testing.assert_array_equal(fast.start_ns, slow.start_ns, name)
                np.testing.assert_array_equal(fast.finish_ns, slow.finish_ns, name)
                np.testing.assert_allclose(fast.size, slow.size, err_msg=name)
                compared.add(name)
    assert compared >= WITH_KERNELS | ({"dyn-equi"} if moldable else {"dqt", "fair-dqt"})


PHASES = 4
PROGRAMS = {
    "BARRIER": Program("BARRIER", 2, granularity_us=100, imbalance=1.0, phases=PHASES),
    "NEWS": Program("NEWS", 4, granularity_us=100, imbalance=0.5, read_imbalance=1.0, phases=PHASES),
    "TRANSPOSE": Program("TRANSPOSE", 3, granularity_us=300, read_gap_us=8, phases=PHASES),
    "TASKS": Program("TASKS", processes=4, granularity_us=300, imbalance=1.0, phases=5 * PHASES),
    "LOCK": LockProgram(processes=3, granularity_us=100, phases=PHASES, section_us=300, lock="mcs"),
    "ticket": LockProgram(processes=2, granularity_us=300, phases=PHASES, section_us=50, lock="ticket"),
}
CASES = {
    "BARRIER NEWS": ("none", {}, Options("fixed"), {"reads_served_by": "network"}),
    "BARRIER TRANSPOSE": (
        "implicit",
        {},
        Options("global-adaptive"),
        {"local": "eevdf", "queue": "stealing"},
    ),
    "TASKS BARRIER": ("process-control", {}, Options("immediate"), {"local": "rr", "serve_us": 3.0}),
    "LOCK NEWS": ("gang", {"quantum_ms": 1}, Options("immediate", remedy=Remedy("activations")), {}),
    "ticket LOCK": ("gang", {"quantum_ms": 1, "synchronised": False}, Options(), {"local": "round-robin"}),
    "NEWS TASKS": ("none", {}, Options("local-adaptive"), {"local": "rr", "queue": "central"}),
}
"""For the programs of jobs the policy, how processes wait, and what differs from the usual machine."""


@pytest.mark.parametrize("programs", CASES)
def test_processes_do_as_the_reference(plain, programs, monkeypatch):
    """The timeline is collected often."""
    monkeypatch.setattr(plain["processes.state"], "TIMELINE_ROWS", 16)
    name, options, waits, machine = CASES[programs]
    model = plain["processes.machine"]
    costs = {"context_switch_us": 5, "latency_us": 10, "tick_us": 1000.0, "os_noise_interval_us": 500.0}
    host = model.SimulatedMachine(processors=3 + ("NEWS" in programs), **costs | machine)
    jobs = [
        model.SimulatedJob(number, PROGRAMS[program], 0.0002 * number)
        for number, program in enumerate(programs.split())
    ]
    policy = policies.create(name, options)
    outcome = plain["processes.simulate"].simulate(jobs, host, policy, waits, timeline=True, seed=5)
    assert len(outcome.timeline) > 2 * 16
    compare(outcome, NaiveSimulation(jobs, host, policy, waits, seed=5).run())


@pytest.mark.parametrize("pattern", ["BARRIER", "NEWS", "TRANSPOSE"])
def test_events_of_coscheduled_processes_that_are_skipped_change_no_number(plain, pattern, monkeypatch):
    model, front_door = plain["processes.machine"], plain["processes.simulate"]
    skips, passed = plain["processes.skipping"], []
    pass_barrier = skips.pass_barrier
    monkeypatch.setattr(skips, "pass_barrier", lambda *job: passed.append(pass_barrier(*job)) or passed[-1])
    program = Program(pattern, 4, granularity_us=100, imbalance=0.5, read_gap_us=8, phases=12)
    host = model.SimulatedMachine(4, context_switch_us=50, latency_us=10, tick_us=1000.0)
    jobs = [model.SimulatedJob(number, program) for number in range(2)]
    skipping, in_turn = (
        front_door.simulate(jobs, host, policies.create("gang", {"quantum_ms": 1}), timeline=timeline)
        for timeline in (False, True)
    )
    assert sum(passed) > 12, "most barriers"
    for name in vars(skipping).keys() - {"timeline"}:
        assert np.array_equal(getattr(skipping, name), getattr(in_turn, name)), name
