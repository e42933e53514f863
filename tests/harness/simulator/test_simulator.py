"""The simulator from outside: hand-computed cases, invariants, and its inputs and cache."""

import os
import shutil
import subprocess
import sys

import pytest
from compiled_only import needs_compiler
from naive_simulator.comparison import compare
from naive_simulator.simulation import NaiveSimulation
from places import ROOT

from coordinator import policies
from harness.simulator import cache
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program
from workloads.validation import InputError

US = 1000


def machine(**changes):
    return SimulatedMachine(**{"processors": 2, "context_switch_us": 200.0, "latency_us": 10.0} | changes)


def program(**changes):
    values = {"pattern": "BARRIER", "processes": 2, "granularity_us": 100.0, "phases": 10}
    return Program(**values | changes)


def run(*programs, on=None, policy="none", options=None, **how):
    jobs = [p if isinstance(p, SimulatedJob) else SimulatedJob(n, p) for n, p in enumerate(programs)]
    waits = Options(blocking=how.pop("blocking", "spin"))
    return simulate(jobs, on or machine(), policies.create(policy, options or {}), waits, **how)


def test_a_barrier_takes_a_round_trip():
    outcome = run(program())
    assert outcome.end_ns == (200 + 10 * (100 + 20)) * US
    assert outcome.messages == 10 * 2 * 2
    assert outcome.spent_ns.tolist() == [[1000 * US, 0, 200 * US, 200 * US, 0]] * 2


@pytest.mark.parametrize(("pattern", "reads"), [("NEWS", 4), ("TRANSPOSE", 4)])
def test_reads_take_a_gap_and_a_round_trip_each(pattern, reads):
    outcome = run(program(pattern=pattern, processes=4, phases=3), on=machine(processors=4))
    phase_us = 100 + 20 + reads * (8 + 20) + 20
    assert outcome.end_ns == (200 + 3 * phase_us) * US
    assert outcome.jobs[0].reads.spun == 3 * reads * 4


def test_without_messages_to_self_only_others_cost_time():
    on = machine(processors=1, messages_to_self=False)
    outcome = run(program(pattern="TRANSPOSE", processes=1, phases=5), on=on)
    assert outcome.end_ns == (200 + 5 * (100 + 8)) * US
    assert outcome.messages == 0


def test_blocking_at_once_costs_two_switches_for_the_reply():
    """Alone, each process blocks, and switches back in for the completion."""
    outcome = run(program(processes=1, phases=2), on=machine(processors=1), blocking="immediate")
    # Its own arrival wakes it (a switch), it blocks again, and the completion wakes it again.
    phase_us = 100 + 10 + 200 + 10 + 200
    assert outcome.end_ns == (200 + 2 * phase_us) * US
    assert outcome.jobs[0].barriers.blocked == 2


def test_one_sided_reads_are_served_without_their_target():
    outcome = run(
        program(pattern="NEWS", read="rma", phases=5), program(phases=4000), policy="gang", blocking="spin"
    )
    assert outcome.jobs[0].reads.spun == 5 * 4 * 2
    assert outcome.failure == ""


def test_overheads_are_paid_by_the_processors():
    cost = machine(send_us=1.0, receive_us=2.0, messages_to_self=False)
    outcome = run(program(phases=1), on=cost)
    # Process 1 sends (1), latency, the root receives (2), sends (1), latency, 1 receives (2).
    assert outcome.end_ns == (200 + 100 + 1 + 10 + 2 + 1 + 10 + 2) * US


def test_gang_switches_all_processors_together():
    outcome = run(program(phases=2000), program(phases=2000), policy="gang", options={"quantum_ms": 20})
    alone = run(program(phases=2000)).end_ns
    slots = 2 * alone // 20_000_000
    assert 2 * alone < outcome.end_ns < 2 * alone + (slots + 3) * 200 * US
    assert outcome.breakdown["idle"] < 0.001


def test_batch_runs_one_job_after_the_other():
    outcome = run(program(), program(), policy="batch")
    alone = run(program()).end_ns
    assert [job.finish_ns for job in outcome.jobs] == [alone, 2 * alone]


def test_partitioned_moulds_programs():
    jobs = [SimulatedJob(n, program(processes=4), moldable=True) for n in range(2)]
    outcome = run(*jobs, on=machine(processors=4), policy="partitioned")
    assert [len(job.placement) for job in outcome.jobs] == [2, 2]
    assert outcome.end_ns == (200 + 10 * (200 + 20)) * US


def test_jobs_arrive_when_they_do():
    outcome = run(SimulatedJob(0, program()), SimulatedJob(1, program(), arrival_s=1.0))
    assert outcome.jobs[1].finish_ns == 1_000_000_000 + run(program()).end_ns
    assert outcome.breakdown["idle"] > 0.99


def test_an_interactive_job_is_served_soon_beside_spinning_ones():
    typing = SimulatedJob(2, program(processes=1, granularity_us=500, phases=20), think_us=20_000.0)
    outcome = run(program(phases=6000), program(phases=6000), typing)
    bursts = outcome.jobs[2]
    assert bursts.finish_ns < outcome.end_ns
    assert sum(bursts.bursts_ns) / 20 < 60_000 * US


def test_an_interactive_job_thinks_before_each_burst():
    typing = SimulatedJob(0, program(processes=1, granularity_us=500, phases=3), think_us=2000.0)
    outcome = run(typing)
    assert outcome.end_ns == (200 + 3 * (2000 + 200 + 500)) * US
    assert outcome.jobs[0].bursts_ns == (700 * US,) * 3


def test_a_sequential_job_only_computes():
    sequential = SimulatedJob(0, program(processes=1, granularity_us=1e6, phases=1), think_us=0.0)
    assert run(sequential).end_ns == 1_000_200 * US


def test_processes_that_spin_for_each_other_for_ever_are_found_out():
    """Different jobs hold the two processors, and fifo never takes one away."""
    outcomes = [
        run(program(phases=50), program(phases=50), on=machine(local="fifo"), seed=seed) for seed in range(8)
    ]
    assert {outcome.failure.split(":")[0] for outcome in outcomes} == {"", "stuck"}
    assert run(program(phases=1000), timeout_s=0.01).failure == "not finished after 0.01 simulated seconds"


@needs_compiler
def test_processes_that_only_load_their_working_sets_are_found_out():
    """A turn is shorter than the time to load the set that the other process has displaced."""
    walks = program(processes=1, granularity_us=20_000, working_set_bytes=100 << 10)
    small = {"local": "eevdf", "slice_us": 300, "tick_us": 300, "cache_kb": 100}
    quick = machine(processors=1, context_switch_us=1, reload_us=100, **small)
    slow = machine(processors=1, context_switch_us=1, reload_us=9000, **small)
    assert run(walks, walks, on=quick).failure == ""
    assert run(walks, walks, on=slow).failure.startswith("stuck: no program has got on")


@pytest.mark.parametrize("blocking", ["spin", "immediate", "fixed", "global-adaptive"])
def test_all_time_is_accounted_for(blocking):
    shapes = [program(pattern=p, imbalance=1.5, phases=40) for p in ("BARRIER", "NEWS", "TRANSPOSE")]
    outcome = run(*shapes, blocking=blocking)
    assert outcome.spent_ns.sum(axis=1).tolist() == [outcome.end_ns] * 2
    assert sum(outcome.breakdown.values()) == pytest.approx(1)
    switching = outcome.spent_ns[:, 3].sum()
    assert switching <= outcome.switches.sum() * 200 * US


@pytest.mark.parametrize("timeout_s", [None, 0.03])
def test_what_each_process_is_charged_is_its_part_of_the_timeline(timeout_s):
    shapes = [program(pattern=p, imbalance=1.5, phases=40) for p in ("BARRIER", "NEWS", "TRANSPOSE")]
    outcome = run(*shapes, blocking="fixed", timeline=True, timeout_s=timeout_s)
    lanes = [outcome.timeline[outcome.timeline[:, 1] == p].tolist() for p in range(2)]
    spans = [
        (process, category, begin, end)
        for lane in lanes
        for (begin, _, process, category), (end, *_) in zip(lane, [*lane[1:], [outcome.end_ns]], strict=True)
    ]
    for number, account in enumerate(process for job in outcome.jobs for process in job.processes):
        mine = sorted((begin, end, category) for process, category, begin, end in spans if process == number)
        spent_ns = [sum(end - begin for begin, end, kind in mine if kind == part) for part in range(4)]
        assert account.spent_ns == tuple(spent_ns)
        assert (account.start_ns, account.finish_ns) == (mine[0][0], max(end for _, end, _ in mine))
        assert account.dispatches == sum(kind == 3 for *_, kind in mine)


def test_no_process_runs_twice_at_once_and_waits_answer_messages():
    shapes = [program(pattern="NEWS", processes=4, phases=30) for _ in range(3)]
    outcome = run(*shapes, on=machine(processors=4), blocking="immediate", timeline=True)
    for processor, process in {(row[1], row[2]) for row in outcome.timeline.tolist() if row[2] >= 0}:
        assert processor == process % 4
    waits = sum(w.spun + w.blocked for job in outcome.jobs for w in (job.reads, job.barriers))
    assert outcome.messages == 2 * waits


def test_the_same_seed_gives_the_same_bytes():
    shapes = [program(pattern="TRANSPOSE", imbalance=1.0, phases=60)] * 2
    first, again = (run(*shapes, blocking="fixed", seed=7, timeline=True) for _ in range(2))
    assert first.timeline.tobytes() == again.timeline.tobytes()
    assert run(*shapes, blocking="fixed", seed=8).end_ns != first.end_ns


def test_compute_times_are_drawn_anew_when_they_run_out():
    jobs = [SimulatedJob(0, program(imbalance=1.0, phases=2000, granularity_us=10.0))]
    policy = policies.create("none", {})
    outcome = simulate(jobs, machine(), policy, seed=3, timeline=True)
    compare(outcome, NaiveSimulation(jobs, machine(), policy, seed=3).run())


def test_an_arrival_that_a_slot_cuts_in_two_stays_synchronizing():
    """BARRIER does not communicate (Figure 2), also when a process loses its processor while it sends."""
    on = machine(processors=1, context_switch_us=0.0, send_us=600.0)
    shapes = [program(processes=1, granularity_us=600.0, phases=3)] * 2
    outcome = run(*shapes, on=on, policy="gang", options={"quantum_ms": 1})
    assert outcome.breakdown["communicating"] == 0.0
    assert outcome.breakdown["synchronizing"] > 0.4


def test_svr4_helps_the_starving_and_the_table_can_be_replaced():
    flat = [[1, 0, 0, 32000, 0]]
    shapes = [program(phases=1500)] * 2
    eager = run(*shapes, on=machine(dispatch_table=flat), blocking="spin")
    assert eager.switches.sum() > run(*shapes, blocking="spin").switches.sum()


@pytest.mark.parametrize(
    ("make", "key"),
    [
        (lambda: machine(processors=0), "processors"),
        (lambda: machine(latency_us=-1.0), "latency_us"),
        (lambda: machine(local="cfs"), "local"),
        (lambda: machine(timers="random"), "timers"),
        (lambda: machine(dispatch_table=[]), "dispatch_table"),
        (lambda: machine(dispatch_table=[[0, 0, 0, 0, 0]]), "dispatch_table[0].quantum"),
        (lambda: machine(dispatch_table=[[1, 1, 0, 0, 0]]), "dispatch_table[0].tqexp"),
        (lambda: SimulatedJob(0, program(), think_us=5.0), "program.processes"),
        (lambda: run(program(processes=3), policy="batch"), "jobs[0].program.processes"),
        (lambda: run(SimulatedJob(1, program()), SimulatedJob(1, program())), "jobs"),
        (run, "jobs"),
        (lambda: run(program(), blocking="never"), "blocking"),
        (lambda: run(program(), timeout_s=0.0), "timeout_s"),
    ],
)
def test_bad_input_is_told_by_key(make, key):
    with pytest.raises(InputError) as told:
        make()
    assert told.value.key == key
    assert told.value.remedy


SCRIPT = """
from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program
jobs = [SimulatedJob(n, Program(processes=2, granularity_us=100, imbalance=2, phases=20)) for n in range(2)]
policy = policies.create("implicit", {})
print(simulate(jobs, SimulatedMachine(processors=2), policy, options=Options(blocking="fixed")).end_ns)
"""


def end_ns(root, **environment):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@needs_compiler
@pytest.mark.slow
def test_without_compilation_the_result_is_the_same():
    jobs = [SimulatedJob(n, program(imbalance=2.0, phases=20)) for n in range(2)]
    compiled = simulate(jobs, machine(), policies.create("implicit", {}), options=Options(blocking="fixed"))
    assert end_ns(ROOT, NUMBA_DISABLE_JIT="1") == compiled.end_ns


KERNEL = """
from harness.simulator.compiled import entry, step
from workloads import blocking
limit = step(blocking.read_limit)
@entry
def kernel(waiting):
    return limit(waiting)
waiting = blocking.waiting("fixed", switch_us=9, latency_us=0)
print(kernel(waiting), sum(kernel.stats.cache_hits.values()))
"""


@pytest.fixture
def copied(tmp_path):
    """The project, copied, with a function that changes the copy's rule without changing its time."""
    for room in ("workloads", "coordinator", "harness"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))

    def change():
        rule = tmp_path / "workloads" / "blocking.py"
        stamp, text = rule.stat(), rule.read_text()
        changed = text.replace("        return waiting.fixed_ns\n", "        return waiting.fixed_ns // 9\n")
        assert changed != text
        rule.write_text(changed)
        os.utime(rule, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))

    return tmp_path, change


@needs_compiler
@pytest.mark.slow
def test_a_changed_waiting_rule_is_compiled_anew(copied):
    root, change = copied
    (root / "kernel.py").write_text(KERNEL)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(root),
        "NUMBA_CACHE_DIR": str(root / "cache"),
    }

    def spin_ns_and_hits():
        done = subprocess.run(
            [sys.executable, "kernel.py"],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return [int(word) for word in done.stdout.split()]

    assert spin_ns_and_hits() == [18000, 0]
    assert spin_ns_and_hits() == [18000, 1]
    change()
    assert spin_ns_and_hits() == [2000, 0]


@pytest.mark.slow
def test_a_changed_waiting_rule_changes_the_simulation(copied):
    root, change = copied
    before = end_ns(root, NUMBA_DISABLE_JIT="1")
    change()
    assert end_ns(root, NUMBA_DISABLE_JIT="1") != before


def test_code_is_not_loaded_from_a_directory_that_others_can_change(tmp_path, monkeypatch):
    """Its name is no secret: another user can make it first where all may write."""
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    place = cache.directory()
    assert place.parent == tmp_path
    place.chmod(0o777)
    assert cache.directory().parent != tmp_path


def test_the_cache_goes_elsewhere_where_nothing_can_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(blocked))
    place = cache.directory()
    assert place.is_dir()
    monkeypatch.delenv("HOME")
    assert cache.directory().is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory().parent == tmp_path / "lockstep"
