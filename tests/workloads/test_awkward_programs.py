"""Two-phase waits in programs that do rare things: reload their MPI, leave its calls, start many requests."""

import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from native_programs import (
    LOCKSTEP,
    as_without,
    ended,
    launcher,
    recorded,
    run,
    summary,
    two_phase,
    wrapper,
)

from workloads import native

pytestmark = pytest.mark.slow

BOTH = pytest.mark.parametrize("mpi", ["here", "openmpi"])


@BOTH
@pytest.mark.parametrize("words", [["2"], ["2", "stays"]])
@pytest.mark.parametrize("options", [[], ["--if-oversubscribed"]])
def test_an_mpi_library_that_was_unloaded_and_loaded_again_is_used_where_it_is_now(
    compiled, mpi, words, options
):
    """Addresses of the unloaded library ended the program; one at the same address was not reached."""
    library = native.library(wrapper(mpi)).libraries[0]
    program = [*launcher(mpi), "-n", "2", compiled(mpi, "reloaded.c", "-ldl"), str(library), *words]
    result = two_phase(program, "--mpicc", str(wrapper(mpi)), *options)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == ["0", "1", "right", "right"]
    if not options:
        assert summary(result) == {"ranks": 2, "waits": 2 * 51}


def registered(compiled, mpi):
    host = compiled("gcc", "registered.c", "-rdynamic")
    module = compiled(mpi, "registered.c", "-shared", "-fPIC", "-DMODULE")
    return [*launcher(mpi), "-n", "2", host, module]


def test_a_module_that_registers_itself_is_reached_or_the_cause_is_named(compiled):
    """Nobody calls dlsym between the loading of Open MPI and its start, so the library cannot act."""
    result = two_phase(registered(compiled, "openmpi"), "--mpicc", str(wrapper("openmpi")))
    assert (result.returncode, result.stdout.count("right")) == (0, 2), result.stderr
    assert result.stderr.count("with no dlsym between") == 1
    match = re.search(r"put (LD_PRELOAD=(\S+)) before lockstep", result.stderr)
    again = run(
        [*LOCKSTEP, "exec", "--mpicc", str(wrapper("openmpi")), "--", *registered(compiled, "openmpi")],
        extra={"LD_PRELOAD": match[2]},
    )
    assert (again.returncode, again.stdout.count("right")) == (0, 2), again.stderr
    assert summary(again) == {"ranks": 2, "waits": 2 * 51}


@pytest.mark.parametrize("how", ["throw", "jump"])
def test_a_call_that_an_error_handler_leaves_has_ended(compiled, how):
    """The next wait of the same thread counted as the second of two at the same time."""
    result = ended(compiled, "openmpi", 3, "left.cc", how, options=["--waiting", "immediate"])
    assert result.stdout == "left 60 right\n"
    assert "several threads" not in result.stderr
    assert summary(result)["waits"] >= 2 * 20


def test_a_recorded_call_that_an_exception_leaves_has_ended(compiled, tmp_path):
    program = [*launcher("openmpi"), "-n", "3", compiled("openmpi", "left.cc")]
    file = tmp_path / "some.npz"
    result = run([*LOCKSTEP, "record", "--mpicc", str(wrapper("openmpi")), "-o", str(file), "--", *program])
    assert result.returncode == 0, result.stderr
    assert re.search(r"ALLREDUCE +60 ", result.stdout), result.stdout


@BOTH
def test_generalized_requests_are_asked_freed_and_cancelled_as_without(compiled, mpi):
    """MPICH's Testall asks them once more than its Waitall."""
    ours = as_without([*launcher(mpi), "-n", "1", compiled(mpi, "general.c")], mpi)
    assert summary(ours)["ranks"] == 1


@BOTH
@pytest.mark.parametrize("count", [0, 5, 30])
def test_requests_of_all_kinds_are_told_as_without(compiled, mpi, count):
    ours = as_without([*launcher(mpi), "-n", "1", compiled(mpi, "mixed.c"), str(count)], mpi)
    assert summary(ours)["ranks"] == 1


@pytest.fixture
def readable():
    """A directory that other users can read."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(os.getuid() != 0 or not shutil.which("su"), reason="only root can become another user")
def test_ranks_of_another_user_wait_two_phase(compiled, readable):
    """They could not read the library in root's cache: five lines of errors, and no waits."""
    program = shutil.copy(compiled("openmpi", "many.c"), readable)
    mine = " ".join([*launcher("openmpi"), "-n", "2", program, "Waitall", "100", "10"])
    argv = ["su", "-s", "/bin/sh", "nobody", "-c", f"HOME={readable} {mine}"]
    result = two_phase(argv, "--mpicc", str(wrapper("openmpi")))
    assert (result.returncode, result.stdout.split()[1:]) == (0, ["right"]), result.stderr
    assert "ld.so" not in result.stderr
    assert summary(result)["ranks"] == 2


FORMS = "Wait,Waitall,Waitany,Waitsome,Test,Testall,Testany,Testsome"


@BOTH
@pytest.mark.parametrize("requests", [1, 100, 1001])
def test_many_requests_are_waited_for_in_each_form(compiled, mpi, requests):
    argv = [*launcher(mpi), "-n", "2", compiled(mpi, "many.c"), FORMS, str(requests), "3"]
    result = two_phase(argv, "--waiting", "immediate", "--mpicc", str(wrapper(mpi)))
    assert (result.returncode, result.stdout.split()[1]) == (0, "right"), result.stderr


STARTING_NS = 300_000_000
"""More than a rank needs to start MPI and to make 10,000 requests."""


@BOTH
@pytest.mark.parametrize("form", ["Waitall", "Waitsome", "Waitany"])
def test_waits_for_many_requests_cost_no_more_than_spinning(compiled, mpi, form, tmp_path):
    """Before each sleep a rank tested twice for each of them, and each test looked at all: for seconds."""
    late_us = 500_000
    requests = 1000 if form == "Waitany" else 10_000
    options = ["--record", str(tmp_path), "--mpicc", str(wrapper(mpi)), "--waiting", "immediate"]
    ended(compiled, mpi, 2, "many.c", form, requests, 1, late_us, options=options)
    late, waiting = recorded(tmp_path)
    assert late.cpu_ns > 1000 * late_us
    assert waiting.cpu_ns < 1000 * late_us + STARTING_NS
