"""The compiled kernel agrees with a reference that was written from the model: what, when, and how often."""

from dataclasses import replace

import pytest
from compiled_only import PLAIN
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from naive_simulator.comparison import compare
from naive_simulator.simulation import DEVIATIONS, NaiveSimulation
from step_lists import program as of_steps
from step_lists import step

from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine, replaying
from harness.simulator.processes.model import COMMUNICATING, SYNCHRONIZING
from harness.simulator.processes.simulate import simulate
from harness.spec.scheduler import shortest_ms
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.machine import QUEUES
from workloads.options import Options, Remedy
from workloads.program import Program
from workloads.waiting_rules import ESTIMATES, RULES

TABLE = [[2, 0, 1, 1, 2], [1, 0, 2, 0, 2], [3, 1, 2, 0, 1]]


QUEUES_OF = {"svr4": ["bound"], "eevdf": ["bound", "stealing"]}


@st.composite
def machines(draw):
    cost = st.sampled_from([0.0, 0.0, 0.0, 0.5, 3.0])
    local = draw(st.sampled_from(["svr4", "round-robin", "rr", "fifo", "eevdf", "eevdf"]))
    processors = draw(st.integers(1, 5))
    queue = draw(st.sampled_from(["bound", *QUEUES_OF.get(local, QUEUES)]))
    roams = queue in ("central", "affinity")  # who spins there may take very long until the others come
    topology = draw(st.sampled_from(["flat", "flat", "flat", "tree", "torus"]))
    lost = st.sets(st.integers(0, processors - 1), max_size=processors - 1)
    return SimulatedMachine(
        processors=processors,
        lost=tuple(draw(st.one_of(st.just(()), st.just(()), lost))),
        topology=topology,
        queue=queue,
        within_job=draw(st.booleans()),
        cache_kb=draw(st.sampled_from([0.0, 0.0, 100.0])),
        cache_reload_us=draw(st.sampled_from([0.0, 40.0, 250.0])),  # shorter than a slice
        sides=(processors, 1) if topology == "torus" else (),
        hop_latency_us=0.0 if topology == "flat" else draw(st.sampled_from([0.0, 3.0, 40.0])),
        context_switch_us=draw(st.sampled_from([0.0, 5.0, 50.0, 200.0])),
        switch_deviation_us=draw(st.sampled_from([(), (), (-8.0, 0.0, 25.0)])),
        **draw(rests()),
        latency_us=draw(st.sampled_from([0.0, 1.0, 10.0, 100.0])),
        remote_wakeup_us=draw(st.sampled_from([0.0, 30.0, 220.0])),
        local_switch_us=draw(st.sampled_from([0.0, 10.0])),
        idle_wakeup_us=draw(st.sampled_from([0.0, 60.0])),
        rule_latency_us=draw(st.sampled_from([None, 2.0])),
        local=local,
        dispatch_table=draw(st.sampled_from([None, TABLE])) if local == "svr4" else None,
        quantum_ms=draw(st.sampled_from([None, 10.0])) if local == "round-robin" else None,
        reads_served_by=draw(st.sampled_from(["process", "process", "network"])),
        timers=draw(st.sampled_from(["independent", "synchronised"])),
        send_us=draw(cost),
        receive_us=draw(cost),
        serve_us=draw(cost),
        poll_us=draw(cost),
        yield_us=draw(cost),
        messages_to_self=draw(st.booleans()),
        handles_when_waiting=draw(st.booleans()),
        spin_clock=draw(st.sampled_from(["processor", "wall"])),
        tick_us=1000.0 if roams else draw(st.sampled_from([0.0, 1000.0])),
        tick_delay_us=draw(st.sampled_from([(), (), (15.0, 40.0, 90.0)])),
        slice_us=draw(st.sampled_from([0.0, 300.0])),
        wake_us=draw(st.sampled_from([0.0, 7.0])),
        queried_slice_us=draw(st.sampled_from([0.0, 300.0, 4000.0])),
        slot_cost_us=draw(st.sampled_from([(), (300.0, 50.0)])),
        switch_delay_us=draw(st.sampled_from([(), (100.0, 300.0, 700.0)])),
        os_noise_interval_us=draw(st.sampled_from([0.0, 0.0, 5000.0, 5000.0 if roams else 500.0])),
        os_noise_length_us=draw(st.sampled_from([5.0, 200.0])),
    )


@st.composite
def rests(draw):
    """Two rests at which switches, sends or both differ; mostly none."""
    if draw(st.sampled_from([True, True, False])):
        return {}
    return {
        "idle_times_us": (draw(st.sampled_from([15.0, 200.0])), 3000.0),
        "switch_after_idle_us": draw(st.sampled_from([(), ((10.0, 30.0), (0.0, 150.0))])),
        "overrun_us": draw(st.sampled_from([(), (), (2.0, 2.5, 7.0)])),
        "send_after_idle_us": draw(st.sampled_from([(), ((0.0, 4.0, 7.0), (20.0, 30.0, 90.0))])),
    }


@st.composite
def jobs(draw, most):
    job_list = []
    for number in range(draw(st.integers(1, 4))):
        if draw(st.sampled_from([False, False, True])):
            arrival_s = draw(st.sampled_from([0.0, 0.0, 0.003, 0.02]))
            job_list.append(replaying(number, draw(recorded(most)), arrival_s))
            continue
        thinks = draw(st.sampled_from([False, False, False, True]))
        pattern = draw(st.sampled_from(["BARRIER", "NEWS", "TRANSPOSE", "LOCK", "TASKS"]))
        program = Program(
            pattern="BARRIER" if thinks or pattern == "LOCK" else pattern,
            processes=1 if thinks else draw(st.integers(1, most)),
            granularity_us=draw(st.sampled_from([20.0, 100.0, 1000.0, 15000.0])),
            imbalance=draw(st.sampled_from([0.0, 0.25, 1.5, 2.0])),
            imbalance_kind=draw(st.sampled_from(["uniform", "exponential"])),
            read_gap_us=draw(st.sampled_from([0.0, 8.0])),
            read_imbalance=draw(st.sampled_from([0.0, 1.0])),
            opening_barrier=pattern in ("BARRIER", "LOCK", "TASKS") or thinks or draw(st.booleans()),
            read=draw(st.sampled_from(["message", "rma"])),
            working_set_bytes=draw(st.sampled_from([0, 50_000, 70_000, 200_000])),
            phases=draw(st.integers(1, 20 if PLAIN else 70)),
        )
        if pattern == "LOCK" and not thinks:
            program = LockProgram(
                processes=program.processes,
                granularity_us=program.granularity_us,
                imbalance=program.imbalance,
                imbalance_kind=program.imbalance_kind,
                working_set_bytes=program.working_set_bytes,
                phases=program.phases,
                section_us=draw(st.sampled_from([5.0, 50.0, 2000.0])),
                locks=draw(st.integers(1, 3)),
                lock=draw(st.sampled_from(list(LOCKS))),
            )
        job_list.append(
            SimulatedJob(
                number,
                program,
                arrival_s=draw(st.sampled_from([0.0, 0.0, 0.003, 0.02])),
                moldable=draw(st.booleans()),
                think_us=draw(st.sampled_from([0.0, 5000.0])) if thinks else None,
            )
        )
    return job_list


KINDS = ["alone", "small", "large", "nonblocking", "all"]


@st.composite
def recorded(draw, most):
    """A program of exchanges, in one order for all of its processes: none blocks another."""
    count = draw(st.integers(1, most))
    channels = []
    table = {}
    steps = [[] for _ in range(count)]
    busy_ns = st.sampled_from([1, 700, 20_000, 100_000, 1_000_000, 15_000_000])

    def over(sender, receiver, meets):
        return table.setdefault((sender, receiver, meets), len(table))

    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=12)):
        one = draw(st.integers(0, count - 1))
        other = draw(st.integers(0, count - 1))
        if kind == "alone" or one == other or count == 1:
            steps[one].append(step(draw(busy_ns), sleeps=draw(st.sampled_from([0, 0, 1]))))
        elif kind == "all":  # each round a message to somebody further away
            for distance in range(1, count):
                for p in range(count):
                    to = over(p, (p + distance) % count, 0)
                    of = over((p - distance) % count, p, 0)
                    later = {"collective": 1, "continues": distance > 1}
                    steps[p].append(step(draw(busy_ns) if distance == 1 else 1, to, of, **later))
        elif kind == "large":
            to = over(one, other, 1)
            steps[one].append(step(draw(busy_ns), to, to))
            steps[other].append(step(draw(busy_ns), to, to))
        elif kind == "nonblocking":  # both come to a message each way, and wait for both later
            ways = [over(one, other, 1), over(other, one, 1)]
            between = st.sampled_from([0, 0, 1])
            for p in (one, other):
                steps[p] += [step(draw(busy_ns), to) for to in ways]
                steps[p] += [step(draw(busy_ns), sleeps=draw(between))]
                steps[p] += [step(1, -1, to, continues=place) for place, to in enumerate(ways)]
        else:
            to = over(one, other, 0)
            steps[one].append(step(draw(busy_ns), to))
            more = {
                "polls": draw(st.sampled_from([0, 0, 1])),
                "carries_us": draw(st.sampled_from([0, 0, 30])),
            }
            steps[other].append(step(draw(busy_ns), -1, to, **more))
    channels = sorted(table, key=lambda ends: table[ends])
    times = draw(st.integers(1, 5 if PLAIN else 20))
    as_mpi = draw(st.sampled_from([False, False, True]))
    yield_interval_ns = draw(st.sampled_from([0, 0, 700, 5_000, 300_000]))
    return of_steps(steps, channels, times, as_mpi=as_mpi, yield_interval_ns=yield_interval_ns)


SCHEDULERS = st.sampled_from(
    [
        ("none", {}),
        ("implicit", {}),
        ("gang", {"quantum_ms": 1}),
        ("gang", {"quantum_ms": 20}),
        ("gang", {"quantum_ms": 2, "synchronised": False}),
        ("partitioned", {}),
        ("batch", {}),
        ("two-queue", {}),  # its tables end and are not repeated
        ("dqt", {}),
        ("rr-job", {"quantum_ms": 3}),
        ("process-control", {}),
        ("dyn-equi", {}),
    ]
)


OBSERVING = st.sampled_from(
    [
        ("working-sets", {"quantum_ms": 7, "observe_ms": 1, "messages_per_ms": 0.5}),
        ("working-sets", {"quantum_ms": 20, "observe_ms": 2, "messages_per_ms": 3}),
    ]
)
"""Not with fifo, under which processes that share a slot can spin for ever while slots change."""


COSCHEDULING = st.sampled_from(
    [
        ("dynamic-coscheduling", {"patience_us": 30, "min_run_ms": 0.2}),
        ("dynamic-coscheduling", {"patience_us": 300, "min_run_ms": 5}),
    ]
)


LOOKS = st.builds(Remedy, st.sampled_from(["conscious", "inheritance", "activations"]))
HELP = st.one_of(
    st.just(Remedy()),
    st.builds(Remedy, st.just("defer"), st.integers(1, 3), st.sampled_from([5.0, 50.0])),
    st.builds(lambda us: Remedy("warning", warning_us=us), st.sampled_from([60.0, 400.0, 5000.0])),
)
"""Remedies for processes that lose their processors in critical sections; LOOKS need bound ones."""


@st.composite
def quotas(draw, machine, remedy):
    """Mostly none; with costs of switches a small one would let nobody get on."""
    if remedy.kind in ("activations", "inheritance") or draw(st.sampled_from([True, True, False])):
        return {}
    share = draw(st.sampled_from([0.5, 0.9, 1.0]))
    period_ms = draw(st.sampled_from([10.0, 33.0, 100.0]))
    return {"quota_processors": share * machine.processors, "quota_period_ms": period_ms}


MOST_YIELDS = 20_000
"""The reference looks at each yield, of which a long wait has a million if the interval is short."""


def yields_less(job, spun_ns):
    """The job, which yields at most MOST_YIELDS times in so much time."""
    interval_ns = job.replay.yield_interval_ns if job.replay else 0
    longer_ns = max(interval_ns, spun_ns // MOST_YIELDS)
    return replace(job, replay=replace(job.replay, yield_interval_ns=longer_ns)) if interval_ns else job


@pytest.mark.slow
@settings(max_examples=20 if PLAIN else 150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_kernel_equals_the_reference(data):
    machine = data.draw(machines())
    may_look = machine.local not in ("eevdf", "fifo") and machine.queue == "bound"
    schedulers = SCHEDULERS if machine.local == "fifo" else SCHEDULERS | OBSERVING
    name, options = data.draw(schedulers | COSCHEDULING if may_look else schedulers)
    policy = policies.create(name, options)
    workload = data.draw(
        jobs((machine.processors - len(machine.lost)) * (1 + policy.allows_oversubscription))
    )
    how = {"seed": data.draw(st.integers(0, 99)), "stream": data.draw(st.integers(0, 1))}
    estimate = data.draw(st.sampled_from(list(ESTIMATES)))
    rule = data.draw(st.sampled_from(list(RULES)))
    remedy = data.draw(HELP | LOOKS if machine.queue == "bound" else HELP)
    slots_ms = [*shortest_ms(vars(policy)).values()]
    assume(remedy.warning_ns < min(slots_ms, default=1e3) * 1e6)  # else nobody enters a section
    waits = Options(rule, imbalance_estimate=estimate, remedy=remedy, **data.draw(quotas(machine, remedy)))
    outcome = simulate(workload, machine, policy, waits, timeline=True, **how)
    if outcome.failure:
        assert machine.local == "fifo"  # the only one under which processes can spin for ever
        return
    spun_ns = int(outcome.spent_ns[:, [COMMUNICATING, SYNCHRONIZING]].sum())
    if (fewer := [yields_less(job, spun_ns) for job in workload]) != workload:
        workload = fewer
        outcome = simulate(workload, machine, policy, waits, timeline=True, **how)
    compare(outcome, NaiveSimulation(workload, machine, policy, waits, **how).run())


def test_a_spin_for_a_lock_counts_processor_time_under_dynamic_coscheduling_too():
    """On processor 0 an interactive job interrupts it."""
    machine = SimulatedMachine(
        *(3, 0), local_switch_us=30, remote_wakeup_us=30, latency_us=10, local="rr", tick_us=1000
    )
    lock = LockProgram(
        processes=2, granularity_us=100, imbalance=0, phases=13, section_us=2000, lock="ticket"
    )
    interactive = Program(processes=1, granularity_us=20, imbalance=0, phases=30)
    workload = [SimulatedJob(0, lock), SimulatedJob(1, interactive, 0.003, think_us=1000.0)]
    policy = policies.create("dynamic-coscheduling", {"patience_us": 30, "min_run_ms": 0.2})
    outcome = simulate(workload, machine, policy, Options("fixed"), timeline=True)
    compare(outcome, NaiveSimulation(workload, machine, policy, Options("fixed")).run())


RESTING = {
    "holders that run on in the place of others": (
        LockProgram(processes=3, granularity_us=100, phases=60, section_us=300, lock="mcs"),
        ("gang", {"quantum_ms": 1}),
        Remedy("activations"),
    ),
    "holders that run on as soon as another asks": (
        LockProgram(processes=3, granularity_us=300, phases=60, section_us=200, lock="ticket"),
        ("gang", {"quantum_ms": 2, "synchronised": False}),
        Remedy("activations"),
    ),
    "suspended processes that wake among others": (
        Program("TASKS", processes=5, granularity_us=300, imbalance=1.0, phases=200),
        ("process-control", {}),
        Remedy(),
    ),
}


@pytest.mark.parametrize("local", ["svr4", "rr", "eevdf"])
@pytest.mark.parametrize("name", RESTING)
def test_who_pays_for_a_rest_does_so_on_both_sides(name, local):
    program, (policy, options), remedy = RESTING[name]
    costs = {"idle_times_us": (50.0, 900.0), "switch_after_idle_us": ((60.0, 90.0), (100.0, 300.0))}
    machine = SimulatedMachine(processors=3, context_switch_us=5, latency_us=10, local=local, **costs)
    workload = [SimulatedJob(number, program, 0.002 * number) for number in range(3)]
    for seed in range(4):
        chosen = policies.create(policy, options)
        waits = Options("immediate", remedy=remedy)
        outcome = simulate(workload, machine, chosen, waits, timeline=True, seed=seed)
        compare(outcome, NaiveSimulation(workload, machine, chosen, waits, seed=seed).run())


@pytest.mark.parametrize(
    "policy, options",
    [
        ("none", {"handles_when_waiting": True}),
        ("none", {"reads_served_by": "network"}),
        ("none", {"serve_us": 3.0}),
        ("partitioned", {}),
    ],
)
def test_the_kernel_equals_the_reference_also_in_what_is_rarely_drawn(policy, options):
    program = Program("NEWS", 4, granularity_us=100, imbalance=1.0, read_imbalance=1.0, phases=60)
    machine = SimulatedMachine(processors=4, **options)
    chosen = policies.create(policy, {})
    workload = [SimulatedJob(number, program, moldable=policy == "partitioned") for number in range(2)]
    outcome = simulate(workload, machine, chosen, Options("fixed"), timeline=True)
    compare(outcome, NaiveSimulation(workload, machine, chosen, Options("fixed")).run())


@pytest.mark.parametrize("rule", ["spin", "fixed", "immediate"])
@pytest.mark.parametrize("granularity_us", [46.7, 180.0])
def test_who_asks_for_the_lock_of_a_stopped_process_lets_it_run_on(granularity_us, rule):
    """Some of 9000 waits for 20 us would last to the next slot of a stopped process, which is 10 ms long."""
    machine = SimulatedMachine(processors=2, context_switch_us=5, local="eevdf")
    program = LockProgram(
        processes=2, granularity_us=granularity_us, section_us=20, lock="ticket", phases=1500
    )
    workload = [SimulatedJob(number, program) for number in range(3)]
    slots = policies.create("gang", {"quantum_ms": 10, "synchronised": False})

    def waits_ns(name):
        outcome = simulate(workload, machine, slots, Options(waiting=rule, remedy=Remedy(name)), seed=1)
        return sum(job.barriers.spun_ns + job.barriers.blocked_ns for job in outcome.jobs)

    assert waits_ns("none") > 50e6
    assert waits_ns("activations") < 1e6


def lone(granularity_us, phases, **job):
    number = job.pop("number")
    return SimulatedJob(number, Program(processes=1, granularity_us=granularity_us, phases=phases), **job)


HOST = {
    "context_switch_us": 0.0,
    "latency_us": 0.0,
    "local": "eevdf",
    "timers": "synchronised",
    "messages_to_self": False,
    "handles_when_waiting": True,
}


def test_the_kernel_deviates_from_what_is_written():
    """A mended kernel takes it from the reference's DEVIATIONS and from here.

    By machine.py, with handles_when_waiting a process handles messages only while it waits. In the
    kernel it does so also whenever it gets the processor in the midst of computing.
    """
    transpose = Program("TRANSPOSE", 2, granularity_us=1e5, imbalance=1.0, opening_barrier=False, phases=1)
    workload = [lone(1e5, 1, number=0, arrival_s=0.003), SimulatedJob(1, transpose, arrival_s=0.001)]
    machine = SimulatedMachine(processors=2, **HOST)
    policy = policies.create("none", {})
    outcome = simulate(workload, machine, policy, options=Options(waiting="spin"), timeline=True)
    compare(outcome, NaiveSimulation(workload, machine, policy).run())
    assert {"handled when dispatched"} == DEVIATIONS
    with pytest.raises(AssertionError):
        compare(outcome, NaiveSimulation(workload, machine, policy, deviates=DEVIATIONS - DEVIATIONS).run())


def test_a_wake_up_does_not_forget_that_a_slice_has_ended():
    """The thinker wakes while the first job is past its slice: the second one competes with it at once."""
    workload = [
        lone(3000.0, 4, number=0),
        lone(20_000.0, 4, number=1, arrival_s=0.003),
        lone(500.0, 4, number=2, arrival_s=0.003, think_us=3000.0),
    ]
    machine = SimulatedMachine(processors=1, **HOST)
    policy = policies.create("none", {})
    outcome = simulate(workload, machine, policy, timeline=True)
    compare(outcome, NaiveSimulation(workload, machine, policy).run())


@pytest.mark.parametrize(
    "yield_us, granularity_us, slice_us, quota",
    [
        pytest.param(1100, 15_000, 0, {}, id="a tick at which it keeps the processor changes no later yield"),
        pytest.param(300, 1000, 0, {"quota_processors": 0.9, "quota_period_ms": 10}, id="quota is used up"),
        pytest.param(300, 15_000, 300, {}, id="the wait is over at a yield that the kernel has foreseen"),
    ],
)
def test_a_process_that_spins_yields_regularly(yield_us, granularity_us, slice_us, quota):
    waits = of_steps(
        [[step(1, -1, 0), step(1_000_000)], [step(50_000_000, 0)]],
        [(1, 0, 0)],
        yield_interval_ns=yield_us * 1000,
    )
    workload = [
        replaying(0, waits),
        lone(granularity_us, 3, number=1),
        lone(500.0, 4, number=2, arrival_s=0.003, think_us=2000.0),
    ]
    machine = SimulatedMachine(
        processors=2, context_switch_us=0.0, latency_us=0.0, local="eevdf", slice_us=slice_us
    )
    policy = policies.create("none", {})
    options = Options("spin", **quota)
    outcome = simulate(workload, machine, policy, options, timeline=True)
    compare(outcome, NaiveSimulation(workload, machine, policy, options).run())
