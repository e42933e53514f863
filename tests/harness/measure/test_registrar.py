"""Ranks with and without the library of two-phase waits: none waits for ever, and all wait alike."""

import random
import shlex
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_programs import launcher, losing, missing, summary, two_phase, wrapper

from harness.measure.registrar import GRACE_S, MOST_GRACE_S, Registrar, Roll, sentence


def answers(roll, now_s):
    list(roll.decided(now_s))
    found = dict(roll.answers())
    for member in found:
        roll.leave(member)
    return found


def test_ranks_that_have_all_come_get_a_yes_though_some_have_yet_to_ask():
    roll = Roll()
    for member in ("a", "b"):
        roll.announce(member, "job", 0.0)
    roll.ask("a", 0, 2, 0.1)
    assert answers(roll, 0.1) == {"a": True}
    roll.ask("b", 1, 2, 60.0)
    assert answers(roll, 60.0) == {"b": True}
    assert not roll.jobs


def test_without_one_rank_the_others_get_a_no_after_the_grace():
    roll = Roll()
    for member, rank in (("a", 0), ("c", 2)):
        roll.announce(member, "job", 0.0)
        roll.ask(member, rank, 3, 0.5)
    assert answers(roll, 0.4 + GRACE_S) == {}
    (job,) = roll.decided(0.5 + GRACE_S)
    assert job.missing == [1]
    assert "rank 1 of a job of 3 " in sentence(job)
    assert answers(roll, 0.5 + GRACE_S) == {"a": False, "c": False}


@given(st.integers(1, 6), st.data())
def test_the_ranks_of_a_job_never_get_different_answers(size, data):
    """Whatever their order, with others that leave, and whoever is late."""
    roll, now_s, told = Roll(), 0.0, {}
    ranks = data.draw(st.lists(st.integers(0, size - 1), unique=True, max_size=size))
    left = [("announce", rank) for rank in ranks]
    while left:
        kind, rank = left.pop(data.draw(st.integers(0, len(left) - 1)))
        now_s += data.draw(st.sampled_from([0.0, 0.3, GRACE_S, MOST_GRACE_S]))
        if kind == "announce":
            roll.announce(rank, "job", now_s)
            left.append((data.draw(st.sampled_from(["ask", "ask", "leave"])), rank))
        elif kind == "ask":
            roll.ask(rank, rank, size, now_s)
        else:
            roll.leave(rank)
        told |= answers(roll, now_s)
    told |= answers(roll, now_s + MOST_GRACE_S)
    assert len(set(told.values())) <= 1
    assert not roll.jobs
    assert True not in told.values() or len(ranks) == size


SOME = 4


def partly(mpi, program, have):
    """So many ranks, some of which have the library."""
    return [*launcher(mpi), "-n", str(SOME), *losing(set(range(SOME)) - have, program)]


def check(mpi, program, have):
    result = two_phase(partly(mpi, [program, "100", ".25", "50"], have), "--mpicc", str(wrapper(mpi)))
    assert result.returncode == 0, result.stderr
    some = have not in (set(), set(range(SOME)))
    assert missing(result.stderr, SOME) == ([set(range(SOME)) - have] if some else [])
    if len(have) == SOME:
        assert summary(result)["ranks"] == SOME
    else:
        assert "no program that uses" in result.stderr


@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_a_job_with_ranks_that_lack_the_library_waits_as_mpi_does(mpi, compiled):
    check(mpi, compiled(mpi, "bsp.c"), {0, 1, 3})


@pytest.mark.soak
@pytest.mark.parametrize("mpi", ["here", "openmpi"])
def test_fifty_jobs_with_random_ranks_without_the_library_all_end(mpi, compiled):
    draw = random.Random(14)
    for _ in range(50):
        check(mpi, compiled(mpi, "bsp.c"), {rank for rank in range(SOME) if draw.random() < 0.7})


def test_jobs_side_by_side_under_one_exec_are_told_apart(compiled):
    program = compiled("here", "bsp.c")
    one = shlex.join(partly("here", [program, "100", ".25", "50"], {0, 1}))
    whole = shlex.join([*launcher("here"), "-n", "4", program, "100", ".25", "50"])
    script = f"{one} & first=$!; {whole} & second=$!; wait $first && wait $second"
    result = two_phase(["sh", "-c", script], "--mpicc", str(wrapper("here")))
    assert result.returncode == 0, result.stderr
    assert "ranks 2, 3 of a job of 4 did not say" in result.stderr
    assert summary(result)["ranks"] == 4


def test_without_a_registrar_to_reach_a_rank_waits_as_mpi_does(compiled):
    """Its host is not reached, or knows another key."""
    program = compiled("here", "bsp.c")
    loop = [program, "100", ".25", "50"]
    unreachable = ["env", "LOCKSTEP_REGISTRAR=key,/nowhere/registrar,1,127.0.0.1", *loop]
    words = [*launcher("here"), "-n", "1", *unreachable, ":", "-n", "1", *loop]
    result = two_phase(words, "--mpicc", str(wrapper("here")))
    assert result.returncode == 0, result.stderr
    assert "rank 0 of a job of 2 did not say" in result.stderr


def test_nobody_without_the_key_is_heard(tmp_path):
    with Registrar(tmp_path, lambda line: None) as registrar:
        path = registrar.variables["LOCKSTEP_REGISTRAR"].split(",")[1]
        script = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
            "s.send(b'wrong job\\n0 2\\n'); s.settimeout(5); sys.exit(s.recv(1) != b'')"
        )
        assert subprocess.run(["python3", "-c", script, path], check=False).returncode == 0
