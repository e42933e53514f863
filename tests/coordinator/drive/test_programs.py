"""Programs that know nothing of Lockstep run under its policies, unchanged."""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from places import SUPPORT
from runs import workload

from coordinator.drive import preflight, running_jobs
from coordinator.drive.driver import run_workload
from coordinator.host.launcher_choice import find_launcher, launcher_at
from workloads.native import NativeError
from workloads.validation import InputError
from workloads.work import Command

pytestmark = pytest.mark.slow

PROGRAM = """
import sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = 0
for step in range(100):
    end = time.thread_time() + 0.001
    while time.thread_time() < end: pass
    total += comm.allreduce(step * (comm.rank + 1))
if comm.rank == 0: print("total", total, "of", comm.size)
"""

CHILDREN = """
import os, time
child = os.fork()
end = time.process_time() + 0.4
while time.process_time() < end: pass
if child: os.waitpid(child, 0); print("done")
"""


def run(programs, policy, waiting="spin", **options):
    """The result of a run of programs, or of synthetic jobs by what they have in place of the usual."""
    work = workload(policy, programs=programs, options=options, waiting=waiting, timeout_s=120)
    return run_workload(work)


def python(text, processes=2, **how):
    return Command((sys.executable, "-c", text), processes, **how)


def test_a_program_gives_the_same_output_beside_two_synthetic_jobs_under_gang():
    """It needs 0.1 s of each processor and has every processor in a third of the slots only."""
    alone = run([python(PROGRAM)], "batch")
    assert alone.failure == "" and alone.jobs[0].output == "total 14850 of 2\n"
    shared = run([python(PROGRAM), *[{"phases": 1000}] * 2], "gang", quantum_ms=20)
    assert shared.failure == ""
    assert shared.jobs[0].output == alone.jobs[0].output
    one = shared.jobs[0]
    assert one.finish_ns - one.start_ns > 0.15e9


def test_an_mpi4py_program_can_wait_by_the_runs_rule():
    programs = [python(PROGRAM, waits="two-phase"), {"phases": 500}]
    result = run(programs, "implicit", waiting="global-adaptive")
    assert result.failure == ""
    assert result.jobs[0].output == "total 14850 of 2\n"
    for rank in result.ranks[:2]:
        barriers = rank.waits.barrier
        assert rank.job == 0 and barriers.spun + barriers.blocked >= 100
        assert rank.finish_ns > rank.start_ns > 0 and rank.computing_ns is None


@pytest.mark.skipif(not shutil.which("mpicc.openmpi"), reason="needs the distribution's Open MPI")
def test_a_native_program_of_another_mpi_can_wait_by_the_runs_rule(tmp_path):
    """It has a launcher of its own, and its ranks are children of a shell."""
    source = SUPPORT / "native" / "bsp.c"
    subprocess.run(["mpicc.openmpi", "-o", "a=b", source], check=True, cwd=tmp_path)
    argv = ("sh", "-c", '"$0" 100 .25 200; exit $?', str(tmp_path / "a=b"))
    native = Command(argv, 2, "mpiexec.openmpi", waits="two-phase")
    result = run([native, python(PROGRAM, waits="two-phase")], "implicit", waiting="immediate")
    assert result.failure == ""
    assert result.jobs[0].output.split()[1] == "400"
    for job in range(2):
        ours = [rank for rank in result.ranks if rank.job == job]
        assert sum(rank.waits.barrier.blocked for rank in ours) > 0
        assert sum(rank.asleep_ns for rank in ours) > 0 < sum(rank.voluntary_switches for rank in ours)
        assert all(0 < rank.cpu_ns < rank.finish_ns - rank.start_ns for rank in ours)


@pytest.mark.skipif(not shutil.which("mpicc.openmpi"), reason="needs the distribution's Open MPI")
def test_a_program_of_another_mpi_than_its_launcher_is_warned_of(tmp_path):
    """Else each rank would be alone, and its times would be taken for those of a parallel job."""
    source = SUPPORT / "native" / "bsp.c"
    subprocess.run(["mpicc.openmpi", "-o", "app", source], check=True, cwd=tmp_path)
    program = str(tmp_path / "app"), "100", ".25", "100"
    mpich, openmpi = (launcher_at(f"mpiexec{end}") for end in ("", ".openmpi"))
    if mpich.kind != "mpich":
        pytest.skip("needs an MPICH, too")
    alone = Command(program)
    result = run([Command(program, 2), alone], "none")
    [warning] = [text for text in result.warnings if program[0] in text]
    assert f"of another MPI than {mpich.path}: each rank is alone" in warning
    result = run([Command(program, 2, openmpi.path), alone], "none")
    assert program[0] not in str(result.warnings)


SHARES = """
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    char line[4096];
    FILE *maps;
    MPI_Init(NULL, NULL);
    maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "/dev/shm/") != NULL || strstr(line, "/ompi.") != NULL)
            fputs(strchr(line, '/'), stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
}
"""


def hybrid(compiled, processes, *words):
    """A command of ranks with two threads each, which prints on how many processors each thread may run."""
    flags = [] if processes > 1 else ["-DALONE"]
    program = compiled("here" if processes > 1 else "gcc", "hybrid.c", "-fopenmp", *flags)
    passive = (("OMP_WAIT_POLICY", "passive"),)  # also fast on a busy host
    return Command((program, *words), processes, environment=passive, threads=2)


def test_each_thread_of_a_rank_gets_a_processor(compiled):
    one, other = workload().processors
    work = workload("gang", options={}, programs=[hybrid(compiled, 2, "3", "5", "100")] * 2)
    for processors, may in (((one, one, other, other), "1 1"), ((one, other, other, one), "2 2")):
        result = run_workload(replace(work, processors=processors))
        assert result.failure == ""
        assert [job.output for job in result.jobs] == [f"60 {may}\n"] * 2
        placed = [(rank.rank, rank.processor) for rank in result.ranks]
        assert placed == [(0, processors[0]), (1, processors[2])] * 2
        assert {len(job.placement) for job in result.jobs} == {4}


def test_a_rank_moves_with_its_threads(compiled):
    one, other = workload().processors
    long, short = (hybrid(compiled, 1, rounds, "40", "400") for rounds in ("40", "4"))
    options = {"quantum_ms": 50, "migrate": True}
    work = workload("gang", options=options, programs=[long, short, long, short])
    result = run_workload(replace(work, processors=(one, one, one, other)))
    assert result.failure == ""
    assert [job.placement for job in result.jobs] == [(0, 1), (2, 3), (2, 3), (2, 3)]
    assert [job.output for job in result.jobs][::2] == ["3200 1 1\n", "3200 2 2\n"]


def test_all_threads_of_a_job_stop_in_the_slots_of_another(compiled, tmp_path):
    """Each thread counts its pieces in a file; only one job's counts grow at a time."""
    files = [tmp_path / name for name in "ab"]
    programs = [hybrid(compiled, 1, "8", "100", "400", str(file)) for file in files]
    seen, over = [], threading.Event()

    def watch():
        while not over.wait(0.005):
            helper_files = [Path(f"{file}-0") for file in files]
            if all(file.exists() and file.stat().st_size for file in helper_files):
                seen.append([list(memoryview(file.read_bytes()[:16]).cast("l")) for file in helper_files])

    with ThreadPoolExecutor() as pool:
        pool.submit(watch)
        try:
            result = run(programs, "gang", quantum_ms=50)
        finally:
            over.set()
    assert [(job.failure, job.output) for job in result.jobs] == [("", "1600 2 2\n")] * 2
    grew = [
        [before != now for before, now in zip(*pair, strict=True)]
        for pair in pairwise(seen)
        if pair[0] != pair[1]
    ]
    assert all(thread > 0 for thread in (count for job in seen[-1] for count in job))
    assert sum(map(all, grew)) <= 2 * len(result.switches) + 2 < len(grew)


def test_threads_of_ranks_on_several_hosts_are_refused():
    with pytest.raises(InputError, match="several hosts"):
        preflight.session(workload(hosts=["a", "b"], programs=[Command(("true",), threads=2)]))


@pytest.mark.parametrize("which", ["", ".openmpi"])
def test_jobs_of_open_mpi_keep_their_files_in_directories_of_their_own(tmp_path, which):
    if not shutil.which(f"mpicc{which}") or launcher_at(f"mpiexec{which}").kind != "openmpi":
        pytest.skip("needs an Open MPI")
    (tmp_path / "shares.c").write_text(SHARES)
    subprocess.run([f"mpicc{which}", "-o", "shares", "shares.c"], check=True, cwd=tmp_path)
    command = Command((str(tmp_path / "shares"),), 2, f"mpiexec{which}")
    result = run([command] * 2, "batch")
    assert result.failure == ""
    for number, one in enumerate(result.jobs):
        assert one.failure == ""
        sessions = [name for name in one.output.splitlines() if "/ompi." in name]
        names = [name for name in one.output.splitlines() if name not in sessions]
        assert len(names) >= 2
        assert all(re.match(rf"/dev/shm/lockstep-\w{{8}}/{number}/", name) for name in names), names
        assert sessions and all(f"/tmp/{number}/ompi." in name for name in sessions), sessions
        assert not Path(names[0]).parents[1].exists()


@pytest.mark.parametrize("name", ["mpiexec", "mpiexec.openmpi"])
def test_launchers_get_the_options_of_a_command(tmp_path, name):
    if not shutil.which(name):
        pytest.skip(f"needs {name}")
    of_mpich = ("-genv", "A", "1", "-genv", "B", "2")
    of_openmpi = ("-x", "A=1", "--mca", "b", "2")
    ours = of_mpich
    others = of_openmpi
    text = "B"
    if launcher_at(name).kind == "openmpi":
        ours = of_openmpi
        others = of_mpich
        text = "OMPI_MCA_b"
    program = "sh", "-c", f"echo $PWD $A ${text}"
    command = Command(program, 2, name, launcher_options=(*ours, "-wdir", str(tmp_path)))
    result = run([command], "none")
    assert result.failure == ""
    assert result.jobs[0].output.splitlines() == [f"{tmp_path} 1 2"] * 2
    with pytest.raises(InputError, match="no option that Lockstep passes on to"):
        run([replace(command, launcher_options=others)], "none")


def test_a_command_that_cannot_wait_by_the_runs_rule_fails_its_job_and_says_so():
    command = Command(("true",), 2, waits="two-phase")
    result = run([command, python(PROGRAM)], "none")
    assert "rank 0, 1 did not wait two-phase" in result.jobs[0].failure
    assert 'waits = "mpi"' in result.jobs[0].failure and result.jobs[1].failure == ""
    with pytest.raises(InputError, match="imbalance"):
        run([command], "implicit", waiting="oracle")


def test_without_a_compiler_nothing_is_started_and_the_remedy_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # with no library that was made before
    monkeypatch.setattr(shutil, "which", lambda name, *rest: None)
    (tmp_path / "mpiexec").symlink_to(find_launcher().path)
    monkeypatch.setattr(
        preflight, "find_launcher", lambda hosts: replace(find_launcher(), path=str(tmp_path / "mpiexec"))
    )
    with pytest.raises(NativeError, match="install the MPI's development package"):
        run([Command(("true",), 2, waits="two-phase")], "none")


@pytest.mark.parametrize("bind", [True, False, "job"])
def test_ranks_are_bound_to_their_processor_or_those_of_their_job_or_not_at_all(bind):
    line = "' '.join(map(str, sorted(os.sched_getaffinity(0)))) + '\\n'"
    text = f"import os; os.write(1, ({line}).encode())"  # whole, whatever another rank writes meanwhile
    work = workload(programs=[python(text, 1), python(text, 2)], bind=bind)
    there = work.processors
    result = run_workload(work)
    assert result.failure == ""
    both = " ".join(map(str, there))
    lone = [str(rank.processor) for rank in result.ranks if rank.job == 0]
    assert result.jobs[0].output.splitlines() == (lone if bind else [both])
    own = [str(processor) for processor in there] if bind is True else [both] * 2
    assert sorted(result.jobs[1].output.splitlines()) == own


def test_children_of_a_program_are_held_with_it():
    """Two programs that fork share each processor in turn, and no child runs out of its turn."""
    result = run([python(CHILDREN, 1)] * 2, "gang", quantum_ms=20)
    assert result.failure == ""
    assert [one.output for one in result.jobs] == ["done\n", "done\n"]


def test_a_program_that_fails_or_is_not_there_is_told_of():
    failing = Command(("sh", "-c", "echo why >&2; exit 3"))
    absent = Command((os.devnull + "/program",))
    result = run([failing, absent], "none")
    assert "status 3" in result.jobs[0].failure and "why" in result.jobs[0].failure
    assert "cannot start" in result.jobs[1].failure


SPEED = re.compile(r"(_time\d*|Time|flops|GUPs|GBs|usec|GBytes|STREAM_(Copy|Scale|Add|Triad)|Wtick)=")
"""What of its summary tells how fast it was rather than what it found."""


def hpc_challenge(place):
    """HPC Challenge on two processes; it reads its input where it runs and writes its output there."""
    place.mkdir()
    shutil.copy(SUPPORT / "native" / "hpccinf.txt", place)
    return Command(("sh", "-c", f"cd {place} && exec hpcc"), 2, "mpiexec.openmpi")


def found(place):
    """All that the program has found out, but not how fast."""
    text = (place / "hpccoutf.txt").read_text()
    summary = text[text.index("Begin of Summary") : text.index("End of Summary")].splitlines()
    residual = re.findall(r"^\|\|Ax-b\|\|.*", text, re.MULTILINE)
    return [line for line in summary if not SPEED.search(line)] + residual


@pytest.mark.skipif(
    not (shutil.which("hpcc") and shutil.which("mpiexec.openmpi")),
    reason="needs the distribution's package hpcc",
)
def test_hpc_challenge_finds_the_same_beside_two_synthetic_jobs_under_gang(tmp_path):
    alone = run([hpc_challenge(tmp_path / "alone")], "batch")
    assert alone.failure == ""
    programs = [hpc_challenge(tmp_path / "shared"), *[{"phases": 1500}] * 2]
    shared = run(programs, "gang", quantum_ms=50)
    assert shared.failure == ""
    assert len(shared.switches) > 10
    expected = found(tmp_path / "alone")
    assert "Success=1" in expected and "PASSED" in expected[-1]
    assert found(tmp_path / "shared") == expected


def test_jobs_whose_launches_take_longer_than_a_lease_are_run(monkeypatch):
    """As those of hundreds of jobs do; before the first answer, an agent waits 5 s."""
    start = running_jobs.start_launcher

    def slowly(*given):
        time.sleep(1.1)
        return start(*given)

    monkeypatch.setattr(running_jobs, "start_launcher", slowly)
    assert not run_workload(workload(phases=10, jobs=5)).failure
