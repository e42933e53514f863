"""The simulator from outside: cases computed by hand, its inputs, and its cache of compiled code."""

import os
import shutil
import subprocess
import sys

import pytest
from compiled_only import needs_compiler
from naive_simulator.comparison import compare
from naive_simulator.simulation import NaiveSimulation
from places import ROOT
from runs import NOBODY, eventually

from coordinator import policies
from harness.simulator import cache
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program
from workloads.validation import InputError

US = 1000
UNBOUND = SimulatedMachine(processors=2, local="rr", queue="stealing")


def machine(**changes):
    return SimulatedMachine(**{"processors": 2, "context_switch_us": 200.0, "latency_us": 10.0} | changes)


def program(**changes):
    values = {"pattern": "BARRIER", "processes": 2, "granularity_us": 100.0, "phases": 10}
    return Program(**values | changes)


def run(*programs, on=None, policy="none", waiting="spin", **how):
    jobs = [p if isinstance(p, SimulatedJob) else SimulatedJob(n, p) for n, p in enumerate(programs)]
    return simulate(jobs, on or machine(), policies.create(policy, {}), Options(waiting), **how)


def test_a_response_time_begins_with_the_arrival():
    first, later = run(program(imbalance=0.0), SimulatedJob(1, program(imbalance=0.0), 0.5)).jobs
    assert later.arrival_ns == 500_000 * US and later.finish_ns > later.arrival_ns
    assert later.response_ns == later.finish_ns - 500_000 * US
    assert later.response_ns == pytest.approx(first.response_ns, abs=200 * US)


def test_processes_that_spin_for_each_other_for_ever_are_found_out():
    """Different jobs hold the two processors, and fifo never takes one away."""
    outcomes = [
        run(program(phases=50), program(phases=50), on=machine(local="fifo"), seed=seed) for seed in range(8)
    ]
    assert {outcome.failure.split(":")[0] for outcome in outcomes} == {"", "stuck"}
    assert run(program(phases=1000), timeout_s=0.01).failure == "not finished after 0.01 simulated seconds"


def test_a_process_loads_its_working_set_once_before_it_computes():
    """It has half the size of the cache, and no other process displaces it."""
    walks = program(processes=1, granularity_us=20_000, working_set_bytes=50 << 10)
    without, cached = (
        run(walks, on=machine(processors=1, cache_kb=size, cache_reload_us=800)) for size in (0, 100)
    )
    assert cached.end_ns - without.end_ns == 400 * US


@needs_compiler
def test_processes_that_only_load_their_working_sets_are_found_out():
    """A turn is shorter than the time to load the set that the other process has displaced."""
    walks = program(processes=1, granularity_us=20_000, working_set_bytes=100 << 10)
    small = {"local": "eevdf", "slice_us": 300, "tick_us": 300, "cache_kb": 100}
    quick = machine(processors=1, context_switch_us=1, cache_reload_us=100, **small)
    slow = machine(processors=1, context_switch_us=1, cache_reload_us=9000, **small)
    assert run(walks, walks, on=quick).failure == ""
    assert run(walks, walks, on=slow).failure.startswith("stuck: no program has got on")


@pytest.mark.parametrize("timeout_s", [None, 0.03])
def test_what_each_process_is_charged_is_its_part_of_the_timeline(timeout_s):
    shapes = [program(pattern=p, imbalance=1.5, phases=40) for p in ("BARRIER", "NEWS", "TRANSPOSE")]
    outcome = run(*shapes, waiting="fixed", timeline=True, timeout_s=timeout_s)
    lanes = [outcome.timeline[outcome.timeline[:, 1] == p].tolist() for p in range(2)]
    spans = [
        (process, category, begin, end)
        for lane in lanes
        for (begin, _, process, category, _), (end, *_) in zip(
            lane, [*lane[1:], [outcome.end_ns]], strict=True
        )
    ]
    for number, account in enumerate(process for job in outcome.jobs for process in job.processes):
        mine = sorted((begin, end, category) for process, category, begin, end in spans if process == number)
        spent_ns = [sum(end - begin for begin, end, kind in mine if kind == part) for part in range(4)]
        assert account.spent_ns == tuple(spent_ns)
        assert (account.start_ns, account.finish_ns) == (mine[0][0], max(end for _, end, _ in mine))
        assert account.dispatches == sum(kind == 3 for *_, kind in mine)


def test_the_same_seed_gives_the_same_bytes():
    shapes = [program(pattern="TRANSPOSE", imbalance=1.0, phases=60)] * 2
    first, again = (run(*shapes, waiting="fixed", seed=7, timeline=True) for _ in range(2))
    assert first.timeline.tobytes() == again.timeline.tobytes()
    assert run(*shapes, waiting="fixed", seed=8).end_ns != first.end_ns


def test_detours_take_their_share_of_the_time():
    """A lone process that computes for 2 s loses to 2000 detours of 0.1 ms what they take."""
    alone = program(processes=1, granularity_us=500.0, phases=4000)
    host = {"processors": 1, "local": "eevdf", "messages_to_self": False}
    undisturbed = run(alone, on=machine(**host))
    disturbed = run(alone, on=machine(**host, os_noise_interval_us=1000.0, os_noise_length_us=100.0))
    assert disturbed.makespan_ns - undisturbed.makespan_ns == pytest.approx(0.2e9, rel=0.15)


def test_compute_times_are_drawn_anew_when_they_run_out():
    jobs = [SimulatedJob(0, program(imbalance=1.0, phases=2000, granularity_us=10.0))]
    policy = policies.create("none", {})
    outcome = simulate(jobs, machine(), policy, seed=3, timeline=True)
    compare(outcome, NaiveSimulation(jobs, machine(), policy, seed=3).run())


@pytest.mark.parametrize(
    "make, key",
    [
        (lambda: machine(processors=0), "processors"),
        (lambda: machine(local="cfs"), "local"),
        (lambda: machine(queue="central"), "queue"),  # svr4 has none, nor eevdf
        (lambda: machine(queue="stealing"), "queue"),
        (lambda: machine(local="eevdf", queue="central"), "queue"),
        (lambda: machine(switch_delay_us=[1.0, -2.0]), "switch_delay_us[1]"),
        (lambda: machine(tick_delay_us=[1.0, 10_000.0]), "tick_delay_us[1]"),
        (lambda: machine(switch_deviation_us=[0.0, float("nan")]), "switch_deviation_us[1]"),
        (lambda: machine(idle_times_us=[5.0, 5.0]), "idle_times_us[1]"),
        (lambda: machine(send_after_idle_us=[[1.0]]), "send_after_idle_us"),
        (lambda: machine(switch_after_idle_us=[[]]), "switch_after_idle_us"),
        (lambda: SimulatedJob(0, program(), think_us=5.0), "program.processes"),
        (lambda: run(program(processes=3), policy="batch"), "jobs[0].program.processes"),
        (lambda: run(SimulatedJob(1, program()), SimulatedJob(1, program())), "jobs"),
        (lambda: run(program(), on=UNBOUND, policy="dynamic-coscheduling"), "queue"),
        (run, "jobs"),
        (lambda: run(program(), waiting="never"), "waiting"),
        (lambda: run(program(), timeout_s=0.0), "timeout_s"),
    ],
)
def test_bad_input_is_told_by_key(make, key):
    with pytest.raises(InputError) as error:
        make()
    assert error.value.key == key
    assert error.value.remedy


def printed(script, root, **environment):
    """The whole numbers that a Python program prints, which finds our packages in a directory."""
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=root,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(word) for word in result.stdout.split()]


SIMULATION = """
from coordinator import policies
from harness.simulator.processes.machine import SimulatedJob, SimulatedMachine
from harness.simulator.processes.simulate import simulate
from workloads.options import Options
from workloads.program import Program
jobs = [SimulatedJob(n, Program(processes=2, granularity_us=100, imbalance=2, phases=20)) for n in range(2)]
machine = SimulatedMachine(processors=2, context_switch_us=200.0, latency_us=10.0)
print(simulate(jobs, machine, policies.create("implicit", {}), options=Options(waiting="fixed")).end_ns)
"""


@needs_compiler
@pytest.mark.slow
def test_without_compilation_the_result_is_the_same():
    compiled = run(*[program(imbalance=2.0, phases=20)] * 2, policy="implicit", waiting="fixed")
    assert printed(SIMULATION, ROOT, NUMBA_DISABLE_JIT="1") == [compiled.end_ns]


# Of a file, since numba keeps no code of a program without one.
KERNEL = """
from harness.simulator.compiled import entry, step
from workloads import waiting_rules
limit = step(waiting_rules.read_limit)
@entry
def kernel(waiting):
    return limit(waiting)
waiting = waiting_rules.waiting_rule("fixed", context_switch_us=9, latency_us=0)
print(kernel(waiting), sum(kernel.stats.cache_hits.values()))
"""


@needs_compiler
@pytest.mark.slow
def test_a_changed_waiting_rule_is_compiled_anew(tmp_path):
    """Also if the file of the rule has the time of before."""
    for room in ("workloads", "coordinator", "harness"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "rule_kernel.py").write_text(KERNEL)

    def spin_ns_and_hits():
        return printed("import rule_kernel", tmp_path, NUMBA_CACHE_DIR=str(tmp_path / "cache"))

    assert spin_ns_and_hits() == [18000, 0]
    assert spin_ns_and_hits() == [18000, 1]
    rule = tmp_path / "workloads" / "waiting_rules.py"
    stamp = rule.stat()
    text = rule.read_text()
    changed = text.replace("        return waiting.fixed_ns\n", "        return waiting.fixed_ns // 9\n")
    assert changed != text
    rule.write_text(changed)
    os.utime(rule, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert spin_ns_and_hits() == [2000, 0]


@needs_compiler
@pytest.mark.slow
def test_code_that_cannot_be_read_or_kept_is_compiled_again(tmp_path):
    (tmp_path / "small_kernel.py").write_text(KERNEL)

    def spin_ns_and_hits(*before):
        words = [*before, sys.executable, "-c", "import small_kernel"]
        environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "NUMBA_CACHE_DIR": str(tmp_path)}
        result = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout.split()

    # No file may have any bytes, as on a full disk.
    assert spin_ns_and_hits("sh", "-c", 'ulimit -f 0; exec "$@"', "sh") == ["18000", "0"]
    assert spin_ns_and_hits() == ["18000", "0"]
    assert spin_ns_and_hits() == ["18000", "1"]
    for kept in tmp_path.glob("kernels-*/*/*"):
        kept.write_bytes(kept.read_bytes()[:9])
    assert spin_ns_and_hits() == ["18000", "0"]
    assert spin_ns_and_hits() == ["18000", "1"]


def test_a_place_without_room_keeps_no_code(tmp_path, monkeypatch):
    places(monkeypatch, XDG_CACHE_HOME=tmp_path)
    monkeypatch.setattr(cache, "ROOM_BYTES", 1 << 60)
    assert not cache.directory().resolve().is_relative_to(tmp_path)
    assert "No space left on device" in cache.refusal()


def places(monkeypatch, **variables):
    """Let these variables alone say where code may be kept."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


def test_code_is_not_loaded_from_a_directory_that_others_can_change(tmp_path, monkeypatch):
    """Its name is no secret: another user can make it first where all may write."""
    places(monkeypatch, NUMBA_CACHE_DIR=tmp_path / "numba")
    place = cache.directory()
    assert place.resolve().parent == tmp_path / "numba"
    assert cache.refusal() == ""
    (tmp_path / "numba").chmod(0o777)
    assert cache.directory().resolve().parent != tmp_path / "numba"
    assert f"{tmp_path / 'numba'} can be changed by others" in cache.refusal()


def test_code_is_loaded_from_the_directory_that_was_checked_though_it_was_exchanged(tmp_path, monkeypatch):
    places(monkeypatch, XDG_CACHE_HOME=tmp_path)
    place = cache.directory()
    (place / "ours").touch()
    (tmp_path / "lockstep").rename(tmp_path / "away")
    (tmp_path / "lockstep" / place.resolve().name).mkdir(parents=True)
    assert [one.name for one in place.iterdir()] == ["ours"]


@pytest.mark.slow
def test_a_temporary_directory_goes_with_its_process_however_that_ends(tmp_path):
    script = "import os; from harness.simulator import cache; print(cache.directory()); os._exit(0)"
    left = {name: value for name, value in os.environ.items() if name != "HOME" and "CACHE" not in name}
    command = [sys.executable, "-c", script]
    result = subprocess.run(command, env={**left, "TMPDIR": str(tmp_path)}, cwd=ROOT, check=True)
    assert result.returncode == 0
    assert eventually(lambda: not any(tmp_path.iterdir()))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
@pytest.mark.parametrize("theirs", [".cache", ".cache/lockstep"])
def test_code_is_not_loaded_below_the_directory_of_another_user(tmp_path, monkeypatch, theirs):
    """He would exchange the directory of the kernels, and numba would unpickle his index."""
    (tmp_path / ".cache" / "lockstep").mkdir(parents=True, mode=0o700)
    os.chown(tmp_path / theirs, NOBODY, NOBODY)
    places(monkeypatch, HOME=tmp_path)
    assert not cache.directory().resolve().is_relative_to(tmp_path)
    assert f"{tmp_path / theirs} belongs to user {NOBODY}" in cache.refusal()


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
    assert "no home directory" in cache.refusal()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.directory().resolve().parent == tmp_path / "lockstep"
