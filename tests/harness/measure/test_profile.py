"""``lockstep exec --profile`` with real ranks: which one is late, by how much, and in which calls."""

import json
import re
from pathlib import Path

import pytest
from native_programs import launcher, two_phase, wrapper

from workloads import native

pytestmark = pytest.mark.slow

RANKS = 4
LATE_US = 5000


@pytest.fixture
def profiled(compiled):
    """A function that runs ranks of an MPI, and gives the command's result and the profiles of its jobs."""

    def run(mpi, *words, options=()):
        program = compiled(mpi, "latecomer.c")
        native.library(wrapper(mpi))
        command = [*launcher(mpi), "-n", str(RANKS), program, *map(str, words)]
        result = two_phase(command, "--profile", "--json", *options)
        return result, document(result)["profile"]

    return run


def document(result):
    """The document of a command, behind what its launcher prints."""
    return json.loads(result.stdout[result.stdout.index('{\n  "schema"') :])


def calls(job):
    return {one["call"]: one for one in job["calls"]}


def check_possible(job):
    """What holds for whatever ranks do."""
    assert 0 < job["heard"] <= job["ranks"]
    assert 0 <= job["outside"] <= 1
    assert sum(one["share"] for one in job["calls"]) <= 1 + 1e-9
    assert job["imbalance"] is None or 0 <= job["imbalance"] <= job["heard"] - 1 + 1e-9
    for one in job["calls"]:
        assert one["calls"] > 0
        assert one["within_s"] >= 0
        assert one["until_last"] is None or 0 <= one["until_last"] <= 1
        if awaited := one["awaited"]:
            assert 0 <= awaited["share"] <= 1
            assert awaited["compared"] <= awaited["calls"]
            assert 0 <= awaited["rank"] < job["ranks"]


@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_a_late_rank_is_named_with_its_share_and_its_lateness(profiled, mpi):
    result, (job,) = profiled(mpi, 300, LATE_US)
    check_possible(job)
    found = calls(job)
    allreduce = found["Allreduce"]
    assert (job["ranks"], job["heard"], allreduce["calls"]) == (RANKS, RANKS, RANKS * 300)
    late = allreduce["awaited"]
    assert (late["rank"], late["calls"], late["compared"]) == (2, 300, 300)
    assert 0.75 <= late["share"] <= 0.99
    assert 0.9 * LATE_US <= 1e6 * late["later_s"] <= 2 * LATE_US
    assert allreduce["until_last"] > 0.5
    assert found["Barrier"]["awaited"]["rank"] == 1
    assert job["busiest"] == 2
    assert job["imbalance"] > 1  # it sleeps while the others wait
    assert re.search(
        r"MPI_Allreduce +1,200 calls .* rank 2 came last in \d\d % of its 300, \d.\d ms later", result.stderr
    )


@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_receives_name_the_rank_that_they_wait_for(profiled, mpi):
    """Also those of a message from any rank, and waits for requests."""
    _, (job,) = profiled(mpi, 10, LATE_US)
    found = calls(job)
    for call in ("Recv", "Probe", "Wait", "Waitall"):
        awaited = found[call]["awaited"]
        assert (awaited["rank"], awaited["later_s"]) == (1, None), call
        assert awaited["share"] > 0.9
    assert found["Waitsome"]["awaited"] is None  # for collective calls, whose root may not be the late rank


def test_a_program_without_a_late_rank_names_nobody(profiled):
    """But four ranks on fewer processors can have one that comes some microseconds after the others."""
    _, (job,) = profiled("here", 3000, 0)
    check_possible(job)
    late = calls(job)["Allreduce"]["awaited"]
    assert late is None or 1e6 * late["later_s"] < LATE_US / 10


def test_many_collective_calls_are_sampled_and_rare_ones_are_not(profiled):
    result, (job,) = profiled("here", 12000, 100)
    check_possible(job)
    found = calls(job)
    late = found["Allreduce"]["awaited"]
    assert late["rank"] == 2
    assert late["calls"] == 12000
    assert 1024 <= late["compared"] <= 4096
    assert found["Barrier"]["until_last"] is not None
    assert f"of its 12,000, sampled {late['compared']:,}," in result.stderr


def test_a_killed_rank_leaves_what_it_has_noted(profiled):
    result, (job,) = profiled("here", 100, LATE_US, "dies")
    assert result.returncode != 0
    assert job["heard"] == RANKS
    assert calls(job)["Allreduce"]["calls"] == RANKS * 100


def test_each_job_has_a_table_and_without_one_the_line_says_so(compiled):
    program = compiled("here", "latecomer.c")
    one = f"mpiexec -n 2 {program} 10 0"
    result = two_phase(["sh", "-c", ";".join([one] * 5)], "--profile", "--json")
    assert len(json.loads(result.stdout)["profile"]) == 5
    assert result.stderr.count(f"profile of 2 ranks ({Path(program).name} 10 0): ") == 3
    assert "profile: and 2 other jobs, with " in result.stderr
    result = two_phase(["true"], "--profile")
    assert "profile: none, no MPI program" in result.stderr


def test_without_the_option_nothing_is_timed(compiled):
    result = two_phase(["mpiexec", "-n", "2", compiled("here", "latecomer.c"), "10", "0"], "--json")
    assert "profile" not in json.loads(result.stdout)
    assert "profile" not in result.stderr


def test_the_profile_and_two_phase_waits_under_the_rule_spin(profiled):
    _, (job,) = profiled("here", 20, LATE_US, options=["--waiting", "spin"])
    assert calls(job)["Allreduce"]["awaited"]["rank"] == 2
