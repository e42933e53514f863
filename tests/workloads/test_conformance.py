"""Nonblocking forms that differ from blocking ones: how they are found, and that no program notices."""

import subprocess

import pytest
from native_programs import as_without, hasty_wrapper, launcher, summary, two_phase, wrapper

from workloads import native
from workloads.native import calls, conformance

HEADERS = {
    "MPICH 5.0": '#define MPICH_VERSION "5.0.2"\n#define ROMIO_VERSION 126',
    "Open MPI 4.1": "#define OMPI_MINOR_VERSION 1\n#define MPI_VERSION 3\n#define OMPI_MAJOR_VERSION 4",
}


@pytest.mark.parametrize("name", list(HEADERS))
def test_an_mpi_is_known_by_its_header(name):
    assert conformance.identity(HEADERS[name]) == name


@pytest.mark.parametrize(
    "macros",
    [
        '#define MPICH_VERSION "6.1"',
        '#define MPICH_VERSION "4.0.3"\n#define I_MPI_NUMVERSION 20210900300',
        '#define MPICH_VERSION "4.0.3"\n#define MVAPICH2_VERSION "2.3.7"',
        HEADERS["Open MPI 4.1"] + "\n#define SPECTRUM_MPI_VERSION 10",
        "#define MPI_ABI_VERSION 1",
    ],
)
def test_a_newer_mpi_and_another_of_the_family_are_unknown(macros):
    assert conformance.identity(macros) is None


JOB = """#!/bin/sh
echo "$@" >> {log}
shift 3
for call in ${{*:-Bcast Scan Waitall Recv Send}}; do echo call $call; done
for call in ${{*:-Bcast Scan Waitall Recv Send}}; do
    echo begin $call
    [ $call = Scan ] && echo "hangs Scan: rank 1: two ranks" && exit 3
    echo own $call
    [ $call = Waitall ] && exit 1
    [ $call = Recv ] && echo "differs Recv: rank 0, case 3"
    echo end $call 0f
done
"""


def test_a_call_that_ends_the_job_is_told_and_the_others_are_tried(tmp_path):
    program = tmp_path / "program"
    log = tmp_path / "log"
    program.write_text(JOB.format(log=log))
    program.chmod(0o700)
    verdicts = conformance.tried(program, [], seed=3, cases=4, call_s=5)
    assert verdicts == {
        "Bcast": conformance.Conformity("same", "", "0f"),
        "Scan": conformance.Conformity("blocking", "hangs: rank 1: two ranks"),
        "Waitall": conformance.Conformity("tested"),
        "Recv": conformance.Conformity("differs", "rank 0, case 3", "0f"),
        "Send": conformance.Conformity("same", "", "0f"),
    }
    assert conformance.differing(verdicts) == {"Waitall", "Recv"}  # a fault of both forms is none of ours
    assert log.read_text().splitlines() == ["3 4 5", "3 4 5 Waitall Recv Send", "3 4 5 Recv Send"]


def test_nothing_is_found_by_a_program_that_does_not_run(tmp_path):
    assert conformance.tried(tmp_path / "none", []) == {}


def test_calls_that_differ_or_are_to_be_left_are_not_replaced():
    declared = {
        f"MPI_{name}"
        for name in ("Scan", "Iscan", "Send", "Isend", "Recv", "Bcast", "Ibcast", "Bcast_c", "Ibcast_c")
    }
    differing = {"Scan", "Recv"}
    covered = calls.covered(declared, differing)
    kept = calls.replaced(covered, differing, {"Bcast"})
    assert [call.name for call in kept] == ["Ibcast", "Ibcast_c", "Scan", "Iscan", "Send", "Isend"]
    assert {call.kind for call in kept if call.name == "Scan"} == {"meeting"}


def test_calls_that_differ_in_place_wait_for_all_only_there():
    declared = {f"MPI_{name}" for name in ("Scan", "Iscan", "Gather", "Igather")}
    covered = calls.covered(declared, {"Scan:in-place", "Gather:in-place"})
    kinds = {call.name: (call.kind, call.meets_in_place) for call in covered}
    assert kinds["Scan"] == ("collective", True)
    assert kinds["Gather"] == ("meeting", False)  # only its root is in place, and all must call alike


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A function that compiles the conformance program for an MPI, once."""
    made = {}

    def compile_one(mpi):
        if mpi not in made:
            made[mpi] = tmp_path_factory.mktemp("conformance") / mpi
            subprocess.run(conformance.compiling(wrapper(mpi), made[mpi]), check=True)
        return made[mpi]

    return compile_one


def macros(mpi):
    argv = [str(wrapper(mpi)), "-E", "-dM", "-include", "mpi.h", "-x", "c", "/dev/null"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
@pytest.mark.parametrize("mpi, ranks, cases", [("here", 2, 10), ("openmpi", 2, 4)])
def test_the_table_knows_the_faults_of_this_mpi(program, mpi, ranks, cases):
    verdicts = conformance.tried(program(mpi), [*launcher(mpi), "-n", str(ranks)], cases=cases, all_s=100)
    name = conformance.identity(macros(mpi))
    assert conformance.differing(verdicts) <= set(conformance.FAULTS[name].split()), verdicts
    lines = [line.split(" ", 1) for line in calls.CALLS.splitlines() if line]
    ours = {text.partition("(")[0] for kind, text in lines if kind in ("collective", "sending", "waiting")}
    assert {call.partition(":")[0].removesuffix("_c") for call in verdicts} == ours


@pytest.mark.soak
@pytest.mark.parametrize("ranks", range(1, 9))
@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_the_table_knows_the_faults_for_many_cases_and_ranks(program, mpi, ranks):
    known = set(conformance.FAULTS[conformance.identity(macros(mpi))].split())
    for seed in range(3):
        start = [*launcher(mpi), "-n", str(ranks)]
        verdicts = conformance.tried(program(mpi), start, seed=seed, cases=100, call_s=60, all_s=600)
        assert verdicts and conformance.differing(verdicts) <= known, verdicts


@pytest.mark.slow
@pytest.mark.parametrize("mpi, ranks", [("here", 3), ("openmpi", 2)])
def test_blocking_calls_leave_the_same_with_two_phase_waits(program, mpi, ranks):
    argv = [*launcher(mpi), "-n", str(ranks), str(program(mpi)), "5", "5", "60"]
    assert summary(as_without(argv, mpi, "end "))["ranks"] == ranks


@pytest.mark.slow
@pytest.mark.parametrize("mpi, ranks", [("here", 3), ("openmpi", 1), ("openmpi", 2)])
def test_ignored_arguments_and_handled_errors_give_what_they_give_without(compiled, mpi, ranks):
    words = ["garbage"] if mpi == "here" else []
    as_without([*launcher(mpi), "-n", str(ranks), compiled(mpi, "ignored.c"), *words], mpi)


@pytest.mark.slow
def test_a_call_can_be_left_to_mpi(program, tmp_path):
    argv = [*launcher("here"), "-n", "2", str(program("here")), "1", "50", "60", "Scan"]
    left = ["--mpicc", str(hasty_wrapper(tmp_path)), "--skip-call", "MPI_Scan"]
    all_waits, fewer = (summary(two_phase(argv, *options))["waits"] for options in ([], left))
    assert fewer <= all_waits - 40


def test_a_call_to_be_left_must_be_one_that_is_replaced():
    result = two_phase(["true"], "--skip-call", "neighbor_altoall")
    assert result.returncode == 2
    assert "choose from Neighbor_alltoall" in result.stderr


@pytest.mark.slow
def test_the_calls_of_an_unknown_mpi_are_tried_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(conformance, "FAULTS", {})
    messages = []
    mpicc = hasty_wrapper(tmp_path)
    library = native.library(mpicc, messages.append)
    assert [line.partition(" the ")[0] for line in messages] == ["compiling two-phase waits for", "trying"]
    assert (library.preload.parent / "outcomes").read_text().count("'same'") > 30
    assert native.library(mpicc, messages.append) == library
    assert len(messages) == 2
