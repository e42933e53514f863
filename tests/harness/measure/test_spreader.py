"""``lockstep exec --spread``: ranks of two launchers on one processor, while another idles."""

import os
import shutil
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import pytest
from native_programs import LOCKSTEP
from runs import eventually, needs_two, spawned, two_processors

from coordinator.host import identity
from coordinator.host.cpu_time import counts
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.processes import ancestors, children, threads
from coordinator.host.processor_load import ProcessorLoads
from coordinator.host.rank_processes import RankProcess
from harness.measure import spreader
from harness.measure.spreader import Spreader

SPIN = """
import os, sys, threading, time
processors = list(map(int, sys.argv[1].split(",")))
os.sched_setaffinity(0, processors)
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
if sys.argv[2] == "binds":
    os.sched_setaffinity(0, processors[:1])
end = time.monotonic() + 60
while time.monotonic() < end:
    if sys.argv[2] == "sleeps":
        time.sleep(60)
"""


def on(*processors):
    return frozenset(processors)


@pytest.fixture
def launched(tmp_path, monkeypatch):
    """A function that starts ranks under a launcher of that name, and gives its pid and theirs.

    Nobody sees processes that others run on this host.
    """
    every = identity.pids
    monkeypatch.setattr(identity, "pids", lambda: [pid for pid in every() if os.getpid() in ancestors(pid)])
    with ExitStack() as stack:

        def start(processors, does="spins", ranks=1):
            folder = tmp_path / str(len(list(tmp_path.iterdir())))
            folder.mkdir()
            rank = f"{sys.executable} -c '{SPIN}' {','.join(map(str, processors))} {does}"
            script = folder / "mpiexec"
            script.write_text("#!/bin/sh\n" + f"{rank} &\n" * ranks + "wait\n")
            script.chmod(0o755)
            process = stack.enter_context(spawned(str(script)))

            def bound():
                pids = [*children(process.pid)]
                return pids if len(pids) == ranks and all(len([*threads(pid)]) == 2 for pid in pids) else []

            pids = eventually(bound)
            stack.callback(lambda: [os.kill(pid, 9) for pid in pids])
            return process.pid, pids

        yield start


def below(pid):
    """The descendants of a process."""
    for child in children(pid):
        yield child
        yield from below(child)


def masks(pid):
    return {frozenset(os.sched_getaffinity(thread)) for thread in threads(pid)}


def wanted_ns(pid):
    """For how long the first thread of a process has had a processor or waited for one."""
    return sum(counts(pid, pid))


class Idle:
    """Loads of processors that only ranks use, whatever others do here now."""

    def look(self):
        return {}


def looked(pid, *spinning, times=3, command=("mpiexec",), variables=None, loads=None):
    """What a spreader tells that looks at the ranks below a process so many times.

    From one look to the next the processes ``spinning`` want a processor for a tenth of a second.
    """
    told = []
    ours = Spreader(command, variables or {}, told.append, root=pid, _loads=loads or Idle())
    for _ in range(times):
        ours.look(time.monotonic())
        ours._due_s = 0.0
        due_ns = {one: wanted_ns(one) + 100_000_000 for one in spinning}
        assert eventually(lambda due_ns=due_ns: all(wanted_ns(one) >= due for one, due in due_ns.items()))
    return told


OURS, THEIRS = 10, 20
"""Launchers of a large host."""

NO_PROCESS = 1 << 22
"""No process of this host has this pid or a higher one."""


@pytest.fixture
def large(monkeypatch):
    """A function that looks at ranks on a host of 64 processors; gives the moves and the lines."""
    moves = []
    told = []
    monkeypatch.setattr(
        spreader, "below", lambda ranks, root: {one.pid for one in ranks if one.launcher != THEIRS}
    )
    monkeypatch.setattr(spreader, "move", lambda rank, mask: moves.append((rank.pid, mask)) or True)
    monkeypatch.setattr(spreader, "name_of", lambda pid: "mpirun")
    monkeypatch.setattr(spreader, "_allowed", lambda launcher: frozenset(range(64)))

    def look(ranks, times=1, seconds=1.0, loads=None):
        one = Spreader(["mpirun", "./app"], {}, told.append, _loads=loads or Idle())
        monkeypatch.setattr(one._ranks, "look", lambda now_s: ranks)
        for number in range(times):
            one.look(number * seconds + 1.0)
        return moves, told

    return look


def ranks(launcher, masks, busy=1):
    pids = [NO_PROCESS + 100 * launcher + place for place in range(len(masks))]
    return [
        RankProcess(pid, launcher, mask, True, busy, (pid,)) for pid, mask in zip(pids, masks, strict=True)
    ]


def test_a_job_of_sixteen_goes_to_the_next_sixteen_processors(large):
    first = [on(processor) for processor in range(16)]
    moves, told = large([*ranks(OURS, first), *ranks(THEIRS, first)])
    assert [mask for _, mask in moves] == [on(processor) for processor in range(16, 32)]
    assert told == [
        "--spread: 16 ranks of mpirun 10 moved from processors 0-15, where ranks of mpirun 20 run, to 16-31"
    ]


def test_three_jobs_of_ours_part(large):
    first = [on(0), on(1)]
    moves, told = large([*ranks(OURS, first), *ranks(OURS + 1, first), *ranks(OURS + 2, first)])
    assert sorted(min(mask) for _, mask in moves) == [2, 3, 4, 5] and len(told) == 2


def test_ranks_that_sleep_in_two_phase_waits_count(large):
    moves, _ = large([*ranks(OURS, [on(0)], busy=0), *ranks(OURS + 1, [on(0)], busy=0)])
    assert len(moves) == 1


def test_processors_that_other_programs_use_are_not_idle(large):
    first = [on(0), on(1)]
    loads = Idle()
    loads.look = lambda: {0: 1.0, 1: 1.0, 2: 0.9, 3: 0.1, 4: 0.2, **dict.fromkeys(range(6, 64), 0.5)}
    moves, _ = large([*ranks(OURS, first), *ranks(THEIRS, first)], loads=loads)
    assert [mask for _, mask in moves] == [on(3), on(5)]


def test_a_new_rank_is_left_until_its_launcher_has_bound_it(large):
    assert large([*ranks(OURS, [on(0)], busy=None), *ranks(THEIRS, [on(0)])]) == ([], [])


def test_a_rival_that_always_follows_is_given_up(large):
    moves, _ = large([*ranks(OURS, [on(0)]), *ranks(THEIRS, [on(0)])], times=200)
    assert len(moves) == spreader.MOST_MOVES


def test_it_looks_once_a_second(large):
    moves, _ = large([*ranks(OURS, [on(0)]), *ranks(THEIRS, [on(0)])], times=10, seconds=0.1)
    assert len(moves) == 1


@needs_two
@pytest.mark.slow
def test_all_threads_of_a_rank_move_to_the_idle_processor(launched):
    first, second = two_processors()
    (other, (rival,)), (ours, (rank,)) = launched([first]), launched([first])
    (line,) = looked(ours, rank, rival)
    assert (masks(rank), masks(rival)) == ({on(second)}, {on(first)})
    assert line == (
        f"--spread: a rank of mpiexec {ours} moved from processors {first}, where ranks of mpiexec {other} "
        f"run, to {second}"
    )


@needs_two
@pytest.mark.slow
def test_two_jobs_below_one_command_part(launched):
    first, second = two_processors()
    (_, (one,)), (_, (other,)) = launched([first]), launched([first])
    assert len(looked(os.getpid(), one, other)) == 1
    assert {*masks(one), *masks(other)} == {on(first), on(second)}


@pytest.mark.parametrize("does", ["binds", "sleeps"])
@needs_two
@pytest.mark.slow
def test_a_rank_that_binds_its_threads_stays_and_a_job_that_sleeps_drives_none_away(launched, does):
    first, second = two_processors()
    _, (rival,) = launched([first], "sleeps" if does == "sleeps" else "spins")
    ours, (rank,) = launched([first, second] if does == "binds" else [first], does.replace("sleeps", "spins"))
    before = eventually(lambda: masks(rank) if len(masks(rank)) == (2 if does == "binds" else 1) else set())
    assert before and looked(ours, rank, *([] if does == "sleeps" else [rival])) == []
    assert masks(rank) == before


@needs_two
@pytest.mark.slow
def test_a_job_without_a_rival_stays(launched):
    first, second = two_processors()
    ours, pids = launched([first], ranks=2)
    _, (other,) = launched([second])
    assert looked(ours, other, *pids) == []
    assert all(masks(pid) == {on(first)} for pid in pids)


@needs_two
@pytest.mark.slow
def test_a_processor_that_the_caller_may_not_use_is_none(launched):
    first, _ = two_processors()
    _, (rival,) = launched([first])
    ours, (rank,) = launched([first])
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {first})
    try:
        assert looked(ours, rank, rival) == []
    finally:
        os.sched_setaffinity(0, before)
    assert masks(rank) == {on(first)}


@pytest.mark.parametrize("chosen", [("taskset", "-c", "0", "mpiexec"), ("mpiexec", "--cpu-set", "0")])
@needs_two
@pytest.mark.slow
def test_a_wish_is_left_and_told_once(launched, chosen):
    first, _ = two_processors()
    _, (rival,) = launched([first])
    ours, (rank,) = launched([first])
    (line,) = looked(ours, rank, rival, command=chosen)
    assert "chooses processors" in line and chosen[0 if chosen[0] == "taskset" else 1] in line
    assert masks(rank) == {on(first)}


SPINNER = "import os\nos.sched_setaffinity(0, [{}])\nwhile True: pass"


@needs_two
@pytest.mark.slow
def test_a_rank_stays_if_another_program_uses_the_other_processor(launched):
    first, second = two_processors()
    _, (rival,) = launched([first])
    ours, (rank,) = launched([first])
    with spawned(sys.executable, "-c", SPINNER.format(second)) as spinner:
        try:
            assert eventually(lambda: os.sched_getaffinity(spinner.pid) == {second})
            assert looked(ours, rank, rival, spinner.pid, loads=ProcessorLoads()) == []
        finally:
            spinner.kill()
    assert masks(rank) == {on(first)}


@needs_two
@pytest.mark.slow
def test_what_a_wrapper_of_each_rank_has_chosen_is_left_and_told_once(launched, tmp_path):
    """Hydra binds no rank, so that taskset has."""
    first, _ = two_processors()
    _, (rival,) = launched([first])
    script = tmp_path / "bind.sh"
    script.write_text(f"exec taskset -c {first} {sys.executable} -c 'while True: pass'")
    with spawned(find_launcher().path, "-n", "1", "sh", str(script)) as process:
        try:
            bound = eventually(lambda: [one for one in below(process.pid) if masks(one) == {on(first)}])
            (line,) = looked(process.pid, rival, bound[0])
        finally:
            process.terminate()
    assert f"a wrapper of process {bound[0]}" in line
    assert "chooses processors that other jobs use, too" in line


@pytest.mark.skipif(shutil.which("mpirun.openmpi") is None, reason="needs the launcher of Open MPI")
@pytest.mark.parametrize("words", [(), ("--bind-to", "core")])
@needs_two
@pytest.mark.slow
def test_two_jobs_of_open_mpi_end_up_on_two_processors(words, tmp_path):
    """Both bind to the first processor; one of them is under ``exec``."""
    first, second = two_processors()
    stop = tmp_path / "stop"
    spin = f"import os\nwhile not os.path.exists({str(stop)!r}): pass\nprint(*os.sched_getaffinity(0))"
    start = ["mpirun.openmpi", "--allow-run-as-root", *words, "-n", "1", sys.executable, "-c", spin]
    ours = [*LOCKSTEP, "exec", "--spread", "--mpicc", shutil.which("mpicc"), "--", *start]
    pipes = {"stdout": subprocess.PIPE, "text": True}
    loads = ProcessorLoads()
    with spawned(*start, **pipes) as other, spawned(*ours, stderr=subprocess.PIPE, **pipes) as process:
        loads.look()
        patience = threading.Timer(30, stop.touch)
        patience.start()
        try:
            line = process.stderr.readline()
        finally:
            patience.cancel()
            stop.touch()
        printed, _ = process.communicate(timeout=60)
        if "--spread" not in line and loads.look()[second] >= spreader.TAKEN:
            other.communicate(timeout=60)
            pytest.skip("another program uses the other processor")
        assert "--spread: a rank of mpirun.openmpi" in line and line.endswith(f"to {second}\n")
        assert (printed, other.communicate(timeout=60)[0]) == (f"{second}\n", f"{first}\n")
