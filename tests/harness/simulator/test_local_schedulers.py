"""Local schedulers of the simulator: turns computed by hand, as Linux and Solaris 2 have them."""

from itertools import pairwise

import pytest
from compiled_only import takes_minutes

from coordinator import policies
from harness.papers.dusseau96 import BASE, coscheduled
from harness.papers.dusseau96 import run as reproduce
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.model import SWITCHING
from harness.simulator.processes.simulate import simulate
from workloads.program import Program

TICK_NS = 10_000_000
NEVER = 32_000


def spans_ns(count, seconds, seed=0, *, tasks=False, **machine):
    """Who runs on one processor for how long, of ``count`` processes that only compute, or take ``tasks``."""
    pattern, processes = ("TASKS", count) if tasks else ("BARRIER", 1)
    program = Program(pattern, processes, granularity_us=1e5, phases=100)
    on = SimulatedMachine(
        processors=1,
        context_switch_us=1.0,
        latency_us=1.0,
        messages_to_self=False,
        timers="synchronised",
        **machine,
    )
    jobs = [SimulatedJob(number, program) for number in range(count // processes)]
    outcome = simulate(jobs, on, policies.create("none", {}), seed=seed, timeline=True)
    began = [(row[0], row[2]) for row in outcome.timeline.tolist() if row[3] == SWITCHING]
    spans = [(who, begin, end) for (begin, who), (end, _) in pairwise(began)]
    return [(who, end - begin) for who, begin, end in spans if end <= seconds * 10**9]


LINUX = {"local": "eevdf"}


@pytest.mark.parametrize(
    "length_ms, machine",
    [
        (100, {"local": "rr"}),
        (20, {"local": "rr", "dispatch_table": [(5, 0, 0, NEVER, 0)]}),
        (4, LINUX),
        (2, {**LINUX, "tick_us": 1000}),
        (3, {**LINUX, "tick_us": 1000, "slice_us": 3000}),
        # A process that asks for its time, where measured turns are nearer to a slice than to a clock tick.
        (1.4, {**LINUX, "queried_slice_us": 1400}),
        (1.4, {**LINUX, "queried_slice_us": 1900}),
        (1.4, {**LINUX, "queried_slice_us": 1900, "tasks": True}),
        (4, {**LINUX, "queried_slice_us": 3900}),
    ],
)
def test_turns_of_linux_last_for_whole_ticks_or_for_a_slice(length_ms, machine):
    """SCHED_RR has intervals of 100 ms; slices of 1.4 ms are looked at in ticks, which are 4 ms apart."""
    spans = [span_ns for _, span_ns in spans_ns(2, 4, **machine)]
    assert sorted(spans)[len(spans) // 2] == pytest.approx(length_ms * 1e6, rel=1e-3)


@pytest.mark.slow
def test_spinning_jobs_that_meet_lose_each_other_again_where_slices_end_between_ticks():
    """Who waits keeps its turn up to the tick, who computes only for a slice."""
    jobs = [SimulatedJob(number, Program("BARRIER", 2, 100, phases=1000)) for number in range(3)]
    detours = {"os_noise_length_us": 50, "os_noise_interval_us": 1e6}

    def takes_ns(queried_slice_us):
        machine = SimulatedMachine(
            2, 5, local="eevdf", timers="synchronised", queried_slice_us=queried_slice_us, **detours
        )
        ran = (simulate(jobs, machine, policies.create("none", {}), seed=seed) for seed in range(9))
        return sorted(outcome.end_ns for outcome in ran)[4]

    assert takes_ns(1400) > 3 * takes_ns(4000)


def turns(count, table, seconds, seed=0):
    """Who runs for how many ticks under a dispatch table of SVR4."""
    ran = spans_ns(count, seconds, seed, dispatch_table=table)
    return [(who, round(span_ns / TICK_NS)) for who, span_ns in ran]


@pytest.mark.parametrize("seed", range(4))
def test_an_update_does_not_reorder_processes_whose_priority_it_does_not_change(seed):
    """Otherwise each "should just round-robin here"."""
    ran = turns(5, [[3, 0, 0, 0, 0]], 12, seed)
    first = [who for who, _ in ran[:5]]
    assert len(set(first)) == 5
    assert [who for who, _ in ran] == [first[n % 5] for n in range(len(ran))]


def test_svr4_has_the_dispatch_table_that_solaris_publishes():
    """The columns of ts_dptbl(4), with quanta in clock ticks."""
    quantum, tqexp, slpret, maxwait, lwait = zip(*SimulatedMachine(1, 1, local="svr4").table(), strict=True)
    sleeps = [50] * 10 + [51] * 10 + [52] * 10 + [53] * 5 + [54] * 5 + [55] * 5
    assert list(quantum) == [20] * 10 + [16] * 10 + [12] * 10 + [8] * 10 + [4] * 19 + [2]
    assert list(tqexp) == [0] * 10 + list(range(50))
    assert list(slpret) == [*sleeps, 56, 57, *[58] * 12, 59]
    assert list(maxwait) == [0] * 59 + [32_000]
    assert list(lwait) == [*sleeps, 56, 57, 58, 58, *[59] * 11]


@takes_minutes
def test_those_whom_an_update_raises_queue_up_in_the_same_order_on_all_processors():
    """So it does not undo the coordination: TRANSPOSE stays as if coscheduled (section 7.1)."""
    cell = BASE.but(pattern="TRANSPOSE", granularity_us=100.0, imbalance=1.0, timers="synchronised")
    slowdown = reproduce(cell, 4.0, 1, 0).makespan_ns / reproduce(coscheduled(cell), 4.0, 1, 0).makespan_ns
    assert slowdown < 1.01
