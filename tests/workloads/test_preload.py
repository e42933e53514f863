"""Two-phase waits in programs that are not ours: the preload and ``lockstep exec``, from outside."""

import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

import mpi_calls
import pytest
from native_programs import (
    LAUNCHERS,
    LOCKSTEP,
    PROGRAMS,
    as_without,
    ended,
    launcher,
    recorded,
    run,
    summary,
    two_phase,
    wrapper,
)
from places import ROOT
from runs import eventually

from workloads import native, waiting_rules
from workloads.native import calls, replacing


def declared(mpi):
    """The names of the functions that an MPI's header declares, without "MPI_"."""
    argv = [wrapper(mpi), "-E", "-include", "mpi.h", "-x", "c", os.devnull]
    header = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\bint MPI_(\w+)\s*\(", header))


class Waiting(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in waiting_rules.Waiting._fields]


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    library = ctypes.CDLL(str(native.rule(tmp_path_factory.mktemp("rule"))))
    library.read_limit.restype = library.barrier_limit.restype = library.learn.restype = ctypes.c_int64
    library.barrier_limit.argtypes = [ctypes.POINTER(Waiting), ctypes.c_int64]
    library.learn.argtypes = [ctypes.POINTER(ctypes.c_int64), ctypes.c_int64]
    return library


@pytest.mark.parametrize("name", list(waiting_rules.RULES))
def test_the_rule_in_c_answers_as_the_leaves_do(rule, name):
    wanted = waiting_rules.waiting_rule(
        name, context_switch_us=12.5, latency_us=3, spin_switches=1.5, imbalance_us=40
    )
    given = Waiting(*wanted)
    assert rule.read_limit(ctypes.byref(given)) == waiting_rules.read_limit(wanted)
    for estimate in (-1, 0, 5_000, 20_000, 124_999, 125_000, 125_001, 10**9):
        limit_ns = rule.barrier_limit(ctypes.byref(given), estimate)
        assert limit_ns == waiting_rules.barrier_limit(wanted, estimate)


def test_the_rule_in_c_learns_as_the_leaf_does(rule):
    waits = random.Random(5)
    plain = waiting_rules.new_sample(3)
    sample = (ctypes.c_int64 * len(plain))(*plain)
    for number in range(1000):
        waited = waits.choice([0, waits.randrange(10**5), waits.randrange(10**8), 10**6 + number])
        assert rule.learn(sample, waited) == waiting_rules.learn(plain, waited)
        assert list(sample) == plain


BOTH = pytest.mark.parametrize("mpi", ["here", "openmpi"])
IMMEDIATE = ("--waiting", "immediate")


def test_the_table_covers_what_an_mpi_has_and_no_more():
    covered = calls.covered({"MPI_Send", "MPI_Isend", "MPI_Send_c", "MPI_Allreduce", "MPI_Bsend", "MPI_Wait"})
    assert [call.name for call in covered] == ["Send", "Bsend", "Isend", "Wait"]
    assert covered[0].names == ["buf", "count", "datatype", "dest", "tag", "comm"]


def test_without_a_c_compiler_the_remedy_is_told(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(native.NativeError, match=r"install one \(Debian: gcc\)"):
        native.library(Path("/usr/bin/mpicc"))


@pytest.fixture(scope="module")
def table():
    """All calls of the table, as if an MPI declared every one."""
    everything = set(re.findall(r"\w+", calls.CALLS))
    forms = {form for name in everything for form in (name, mpi_calls.nonblocking(name), f"{name}_init")}
    return calls.covered({f"MPI_{form}{large}" for form in forms for large in ("", "_c")})


def test_the_table_names_each_call_once(table):
    names = [call.name for call in table]
    assert len(names) == len(set(names)) > 100


def test_each_call_of_mpi_that_waits_or_makes_progress_is_covered_or_named_as_not_reached(table):
    limits = (ROOT / "docs" / "reference" / "limits-of-exec.md").read_text()
    patterns = re.findall(r"`([\w*]+)`", limits)
    waits = {call.name for call in table if call.kind in calls.WAITS} | {"Finalize"}
    missing = (mpi_calls.waiting() - waits) | (mpi_calls.advancing() - {call.name for call in table})
    assert not [name for name in missing if not any(fnmatch(name, pattern) for pattern in patterns)]


@pytest.mark.slow
@pytest.mark.parametrize("mpi", LAUNCHERS)
def test_the_list_of_mpi_s_calls_knows_every_call_of_an_mpi(mpi):
    names = {name.removesuffix("_c") for name in declared(mpi)}
    assert len(names) > 300
    assert sorted(name for name in names if not mpi_calls.knows(name)) == []


@pytest.mark.parametrize("mpi, ranks", [("here", 3), ("openmpi", 3), ("abi", 2)])
def test_rare_and_wrong_uses_give_what_they_give_without(compiled, mpi, ranks):
    ours = as_without([*launcher(mpi), "-n", str(ranks), compiled(mpi, "rare.c")], mpi)
    assert summary(ours)["ranks"] == ranks


@pytest.mark.parametrize("rule_name", ["spin", "immediate", "global-adaptive"])
def test_every_rule_waits_in_a_loop_of_ranks_that_outnumber_the_cores(compiled, tmp_path, rule_name):
    ranks = 2 if rule_name == "spin" else 4
    options = ("--waiting", rule_name, "--record", str(tmp_path))
    result = ended(compiled, "here", ranks, "bsp.c", 200, 0.5, 300, options=options)
    assert result.stdout.split()[1] == str(300 * ranks)
    records = recorded(tmp_path)
    assert [record.rank for record in records] == list(range(ranks))
    for record in records:
        barriers = record.waits.barrier
        # The loop, a barrier and a reduction around it; then ours waits for all before the end.
        assert barriers.spun + barriers.blocked == (302 if rule_name == "spin" else 303)
        assert sum(barriers.spun_histogram) == barriers.spun
    blocked = sum(record.waits.barrier.blocked for record in records)
    assert (blocked == 0) == (rule_name == "spin")


@pytest.fixture
def one_processor():
    """The words before a command that has one processor."""
    if shutil.which("taskset") is None:
        pytest.skip("needs taskset")
    return ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


def test_a_rank_does_not_spin_in_the_place_of_the_rank_it_waits_for(compiled, tmp_path, one_processor):
    options = ("--waiting", "fixed", "--spin-switches", "1e6", "--record", str(tmp_path))
    ended(compiled, "here", 2, "bsp.c", 200, 0.5, 300, options=options, before=one_processor)
    records = recorded(tmp_path)
    # They compute for 0.12 s. To spin would take a slice of some milliseconds in each of 300 iterations,
    # though the rule lets a rank spin for ten seconds.
    assert sum(record.cpu_ns for record in records) < 0.4e9


@pytest.mark.parametrize("computing_us, naps", [(0, True), (5, False)])
def test_a_program_that_only_polls_naps(compiled, tmp_path, computing_us, naps, one_processor):
    options = {"options": ("--record", str(tmp_path)), "before": one_processor}
    assert ended(compiled, "here", 2, "poll.c", 50, 1000 * computing_us, **options).stdout == "49\n"
    # Only the last wait, in which all ranks end, may block if programs compute between their polls.
    records = recorded(tmp_path)
    assert any(record.voluntary_switches > 40 for record in records) == naps


@BOTH
def test_a_rank_that_waits_for_a_window_yields(compiled, tmp_path, mpi, one_processor):
    options = ("--record", str(tmp_path), "--mpicc", str(wrapper(mpi)))
    result = ended(compiled, mpi, 2, "others.c", "fence", 500, 100, options=options, before=one_processor)
    assert "right" in result.stdout
    # They compute for 0.1 s. To spin would take slices of some milliseconds in each of 100 rounds.
    assert sum(record.cpu_ns for record in recorded(tmp_path)) < 0.65e9


def test_open_mpi_yields_except_in_two_phase_waits(compiled):
    ranks = str(2 * (os.cpu_count() or 1))
    argv = [*launcher("openmpi"), "-n", ranks, compiled("openmpi", "yields.c")]
    assert run(argv).stdout == f"inside 1 after 1 of {ranks} ranks\n"
    assert two_phase(argv, "--waiting", "fixed").stdout == f"inside 0 after 1 of {ranks} ranks\n"


@pytest.mark.parametrize("module", ["", "-DF08"])
def test_fortran_programs_wait_two_phase(compiled, module):
    flags = ["-cpp", "-ffree-line-length-none", *filter(None, [module])]
    program = compiled("openmpi", "bsp.f90", *flags)
    result = two_phase([*launcher("openmpi"), "-n", "3", program, "100", ".5", "100"])
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[1] == str(100 * (3 + 2 * 2))  # sums, and what rank 0 has got twice
    assert summary(result) == {"ranks": 3, "waits": 3 * 303}


OPENMPI_OF_DEBIAN = "/usr/lib/x86_64-linux-gnu/libmpi.so.40"


@pytest.mark.soak
@pytest.mark.parametrize("ranks", [2, 4])
@BOTH
def test_mpi4py_s_own_tests_pass_where_they_pass_without(mpi, ranks):
    argv = [sys.executable, str(PROGRAMS.parent / "mpi4py_suite.py"), "--ranks", str(ranks)]
    argv += ["--launcher", " ".join(launcher(mpi))]
    if mpi == "openmpi":
        argv += ["--libmpi", OPENMPI_OF_DEBIAN, "--knob", "OMPI_MCA_mpi_yield_when_idle=1"]
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    result = subprocess.run(argv, env=os.environ | allowed, stdout=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 0 and " passed as it is" in result.stdout, result.stdout


@BOTH
def test_a_program_whose_threads_wait_is_right_and_says_how_it_waits(compiled, mpi):
    result = ended(compiled, mpi, 3, "threads.c", 4, 50, 100, flags=["-pthread"], options=IMMEDIATE)
    assert result.stdout.split()[0] == "0"
    assert 1 <= result.stderr.count("several threads wait") <= 3


@pytest.mark.parametrize("mpi", ["here", "abi"])
def test_calls_of_mpi_4_are_right_and_wake_those_who_wait_for_them(compiled, mpi, tmp_path):
    rounds = 100
    if "Isendrecv" not in declared(mpi):
        pytest.skip("the MPI is older")
    options = [*IMMEDIATE, "--mpicc", str(wrapper(mpi)), "--record", str(tmp_path)]
    assert ended(compiled, mpi, 2, "newer.c", rounds, options=options).stdout == "0\n"
    # If a partition that is ready, a start or a poll did not ring, one wait in each round would end by a nap.
    assert all(record.rechecks < rounds / 2 for record in recorded(tmp_path))


@pytest.mark.parametrize("mpi", ["openmpi", "abi"])
def test_a_program_of_another_mpi_is_left_alone(compiled, mpi):
    options = ("--mpicc", str(wrapper("here")))
    result = ended(compiled, mpi, 2, "bsp.c", 100, 0.5, 50, options=options)
    if mpi == "openmpi" and "Open" in run(["mpiexec", "--version"]).stdout:
        pytest.skip("both are Open MPI")
    assert result.stdout.split()[1] == "100"
    assert "waits as it is" in result.stderr and "libmpi" in result.stderr


STRANGER = """
import os, re, socket
os.setuid(65534)
names = {line.split("@")[1] for line in open("/proc/net/unix").read().splitlines() if "@lockstep-" in line}
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
    for name in names:  # of other commands, too, which ignore it like this one
        for garbage in (b"{", b"[]", b""):
            try:
                own.sendto(garbage, "\\0" + name)
            except ConnectionRefusedError:  # it has ended meanwhile
                pass
print("sent", len(names) > 0)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
def test_what_another_user_sends_is_ignored(compiled, tmp_path):
    script = tmp_path / "stranger.py"
    script.write_text(STRANGER)
    program = " ".join([*launcher("here"), "-n", "2", compiled("here", "bsp.c"), "100", ".25", "100"])
    both = f"/usr/bin/python3 {script} && {program}"
    result = run(
        [*LOCKSTEP, "exec", "--mpicc", str(native.wrapper(launcher("here"))), "--", "sh", "-c", both]
    )
    assert result.returncode == 0 and result.stdout.startswith("sent True"), result.stderr
    assert "two-phase waits: 2 ranks" in result.stderr and "Traceback" not in result.stderr


NAMED = re.compile(r"/dev/shm/mpich_\S+$", re.MULTILINE)


def test_nothing_is_left_when_a_rank_is_killed(compiled, tmp_path):
    before = set(Path("/dev/shm").iterdir())
    argv = [*launcher("here"), "-n", "2", compiled("here", "bsp.c"), "100", ".5", "1000000"]
    listing = ["pgrep", "-f", f"^{re.escape(argv[-4])} "]
    with subprocess.Popen([*LOCKSTEP, "exec", "--", *argv], stderr=subprocess.DEVNULL) as process:
        while (
            len(ranks := subprocess.run(listing, capture_output=True, text=True, check=False).stdout.split())
            < 2
        ):
            time.sleep(0.05)
        while "memfd:lockstep" not in Path(f"/proc/{ranks[0]}/maps").read_text():
            time.sleep(0.05)
        # MPICH's segments have no names any more: on other hosts nobody could remove them.
        assert eventually(
            lambda: not any(NAMED.search(Path(f"/proc/{rank}/maps").read_text()) for rank in ranks)
        )
        os.kill(int(ranks[0]), signal.SIGKILL)
        assert process.wait(30) != 0
    assert not subprocess.run(listing, capture_output=True, check=False).stdout
    assert not [path for path in set(Path("/dev/shm").iterdir()) - before if "lockstep" in path.name]


@pytest.mark.parametrize("mpi, rule_name", [("here", "immediate"), ("openmpi", "global-adaptive")])
def test_no_nap_is_between_two_steps_of_collective_operations_that_were_started(compiled, mpi, rule_name):
    """Naps took MPICH 6 s."""
    result = ended(compiled, mpi, 4, "dups.c", 50, options=("--waiting", rule_name))
    assert int(result.stdout) < 3000


@BOTH
def test_communicators_are_made_while_comm_idup_is_under_way(compiled, mpi):
    """Other nonblocking operations took the places of Open MPI's own, and all ranks waited for ever."""
    assert ended(compiled, mpi, 6, "idups.c", options=IMMEDIATE).stdout.strip() == "0"


@BOTH
def test_collective_operations_of_a_revoked_communicator_stay_mpi_s_own(compiled, mpi):
    """Open MPI 5.0's nonblocking ones never end; MPI's own fail at once."""
    result = ended(compiled, mpi, 2, "revoked.c", flags=["-rdynamic"])
    assert summary(result)["waits"] == 2 * (2 + 1 + 10 + 1)  # copies, barriers, the end


@pytest.mark.parametrize("command", ["exec", "record"])
def test_ranks_of_mpich_end_without_each_other_where_it_is_told_so(compiled, tmp_path, monkeypatch, command):
    program = [*launcher("here"), "-n", "2", compiled("here", "alone.c"), str(tmp_path / "ended")]
    tail = ["-o", str(tmp_path / "some.npz")] if command == "record" else []
    monkeypatch.setenv("MPIR_CVAR_NO_COLLECTIVE_FINALIZE", "on")
    result = run([*LOCKSTEP, command, *tail, "--", *program])
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "mpi, megabytes, rule_name, others",
    [
        ("here", 16, "immediate", []),
        ("here", 16, "global-adaptive", ["others"]),
        ("openmpi", 64, "immediate", ["others"]),
    ],
)
def test_no_nap_is_between_two_of_the_many_parts_of_a_message(compiled, mpi, megabytes, rule_name, others):
    """Naps took 8 to 9 s."""
    result = ended(compiled, mpi, 2, "parts.c", megabytes, *others, options=("--waiting", rule_name))
    assert int(result.stdout) < 3000


@BOTH
def test_a_rank_that_is_rung_takes_all_messages_that_are_here(compiled, mpi, tmp_path):
    """MPICH takes one in a test, so the rank slept 500 times: 1.0 s instead of 0.08."""
    options = [*IMMEDIATE, "--record", str(tmp_path)]
    assert ended(compiled, mpi, 2, "halo.c", 60, 100, 4000, 20, options=options).stdout.split()[1] == "right"
    for record in recorded(tmp_path):
        assert record.waits.read.blocks < 160  # right: up to 10, beside other programs 112


@BOTH
def test_several_collective_writes_to_a_file_at_a_time_are_right(compiled, mpi, monkeypatch, tmp_path):
    """MPICH's tests of their requests mix their messages up; its waits do not."""
    monkeypatch.chdir(tmp_path)
    assert ended(compiled, mpi, 4, "files.c").stdout == "0\n"


@BOTH
def test_jobs_whose_ranks_have_a_processor_each_can_be_left_alone(compiled, mpi):
    core = str(min(os.sched_getaffinity(0)))
    program = [*launcher(mpi), "-n", "2", "taskset", "-c", core, compiled(mpi, "bsp.c"), "100", ".25", "10"]
    fitting = [*launcher(mpi), "-n", "1", *program[-4:]]
    alone = two_phase(fitting, "--if-oversubscribed")
    assert (alone.returncode, "two-phase waits: none" in alone.stderr) == (0, True)
    assert summary(two_phase(program, "--if-oversubscribed"))["ranks"] == 2
    assert summary(two_phase(fitting))["ranks"] == 1


def test_what_leaves_a_rank_lengthens_its_next_spin_but_not_the_room_for_what_comes():
    names = ("Send", "Isend", "Irecv", "Bcast", "Ibcast", "Alltoall", "Ialltoall", "Barrier", "Ibarrier")
    declared = {f"MPI_{name}" for name in names}
    definitions = replacing.definitions(calls.covered(declared))
    bodies = dict(re.findall(r"int lockstep_(\w+)\([^)]*\)\n\{\n(.*?)\n\}", definitions, re.DOTALL))
    told = {name for name, body in bodies.items() if "wait_carries(" in body}
    assert told == {"Send", "Isend", "Bcast", "Ibcast", "Alltoall", "Ialltoall"}
    assert "wait_carries(sendcount, sendtype);" in bodies["Alltoall"]
