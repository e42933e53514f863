"""Ranks with and without the library of two-phase waits: none waits for ever, and all wait alike."""

import os
import random
import shlex
import socket
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import unprivileged_actions
from hypothesis import given
from hypothesis import strategies as st
from native_programs import LOCKSTEP, launcher, losing, missing, summary, two_phase, wrapper
from runs import eventually, nobody_at, spawned

from harness.measure.registrar import (
    ANSWER_S,
    GRACE_S,
    MOST_GRACE_S,
    STRANGERS,
    Registrar,
    Roll,
    own_addresses,
    sentence,
)


def answers(roll, now_s):
    list(roll.decided(now_s))
    answers_by_rank = dict(roll.answers())
    for member in answers_by_rank:
        roll.leave(member)
    return answers_by_rank


def test_ranks_that_have_all_come_get_a_yes_once_all_have_asked():
    """Else the last one might get no answer in time, and wait otherwise than those that have got theirs."""
    roll = Roll()
    for member in ("a", "b"):
        roll.announce(member, "job", 0.0)
    roll.ask("a", 0, 2, 0.1)
    assert answers(roll, 0.1) == {}
    roll.ask("b", 1, 2, ANSWER_S)
    assert answers(roll, ANSWER_S) == {"a": True, "b": True}
    assert not roll.jobs


def test_a_job_that_has_asked_for_long_gets_a_no():
    """Its ranks may be about to give up waiting."""
    roll = Roll()
    for member in ("a", "b"):
        roll.announce(member, "job", 0.0)
        roll.ask(member, int(member == "b"), 2, 5.0)
    (job,) = roll.decided(5.0 + ANSWER_S)
    assert "heard nothing of lockstep" in sentence(job)
    assert answers(roll, 5.0 + ANSWER_S) == {"a": False, "b": False}


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
    roll = Roll()
    now_s = 0.0
    answers_by_rank = {}
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
        answers_by_rank |= answers(roll, now_s)
    answers_by_rank |= answers(roll, now_s + max(ANSWER_S, MOST_GRACE_S))
    assert len(set(answers_by_rank.values())) <= 1
    assert not roll.jobs
    assert True not in answers_by_rank.values() or len(ranks) == size


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


@pytest.mark.parametrize("name", ["a b", "a\nb"])
def test_a_job_whose_name_has_blanks_is_known(name, compiled):
    loop = ["env", f"SLURM_STEP_ID={name}", compiled("here", "bsp.c"), "100", ".25", "50"]
    result = two_phase([*launcher("here"), "-n", "2", *loop], "--mpicc", str(wrapper("here")))
    assert result.returncode == 0, result.stderr
    assert summary(result)["ranks"] == 2


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


def told_of(registrar):
    """The key, the path, the port and the addresses of a registrar."""
    key, path, port, *addresses = registrar.variables["LOCKSTEP_REGISTRAR"].split(",")
    return key, path, int(port), addresses


def two_ranks(key, name, connect):
    """The answers to the two ranks of a job, each of which connects so."""
    with ExitStack() as stack:
        lines = [stack.enter_context(connect()) for _ in range(2)]
        for rank, line in enumerate(lines):
            line.settimeout(20)
            line.sendall(f"{key} {name}\n{rank} 2\n".encode())
        return [line.recv(1) for line in lines]


def connected(path):
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    return line


def descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize("by", ["port", "path"])
def test_callers_without_the_key_are_few_and_go_and_ranks_are_heard_meanwhile(tmp_path, by):
    with Registrar(tmp_path, lambda line: None) as registrar, ExitStack() as stack:
        key, path, port, _ = told_of(registrar)
        before = descriptors()
        ways = {
            "port": lambda: socket.create_connection(("127.0.0.1", port)),
            "path": lambda: connected(path),
        }
        silent = [stack.enter_context(ways[by]()) for _ in range(STRANGERS + 30)]
        for name, way in ways.items():
            assert two_ranks(key, name, way) == [b"y", b"y"]
        more = [stack.enter_context(ways[by]()) for _ in range(3 * STRANGERS)]
        for name, way in ways.items():
            assert two_ranks(key, name, way) == [b"y", b"y"]
        assert descriptors() - before - len(silent) - len(more) <= STRANGERS + 1
        for one in (*silent, *more):
            one.settimeout(20)
            with suppress(ConnectionError):
                assert one.recv(1) == b""


class Crowded(Registrar):
    """A registrar whose first callers are turned out before they have shown the key."""

    def __init__(self, folder, callers):
        super().__init__(folder, print)
        self.left = callers

    def _accept(self, listener):
        if self.left:
            self.left -= 1
            listener.accept()[0].close()
        else:
            super()._accept(listener)


@pytest.mark.parametrize("callers", [1, 7])
def test_a_rank_that_is_turned_out_comes_again_and_is_heard(callers, tmp_path, compiled):
    loop = [compiled("here", "bsp.c"), "100", ".25", "50"]
    with Crowded(tmp_path, callers) as registrar:
        told = [f"{name}={text}" for name, text in registrar.variables.items()]
        words = [*launcher("here"), "-n", "2", "env", *told, *loop]
        result = two_phase(words, "--mpicc", str(wrapper("here")))
    assert result.returncode == 0, result.stderr
    assert summary(result)["ranks"] == 2 and not registrar.left


FULL = """
import os, resource, socket, sys
from pathlib import Path
from harness.measure.registrar import Registrar
with Registrar(Path(sys.argv[1]), print) as registrar:
    key, path, *_ = registrar.variables["LOCKSTEP_REGISTRAR"].split(",")
    lines = [socket.socket(socket.AF_UNIX) for _ in range(4)]
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for number, line in enumerate(lines):
        line.settimeout(20)
        if number == 2:
            for one in taken:
                os.close(one)
        line.connect(path)
        if number < 2:
            assert line.recv(1) == b"", "turned away"
    for rank, line in enumerate(lines[2:]):
        line.sendall(f"{key} job\\n{rank} 2\\n".encode())
    assert [line.recv(1) for line in lines[2:]] == [b"y", b"y"]
"""


@pytest.mark.slow
def test_without_a_descriptor_left_a_rank_is_turned_away_and_later_ones_are_heard(tmp_path):
    subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], check=True, timeout=60)


def test_only_with_ranks_elsewhere_other_hosts_reach_the_port(tmp_path):
    (tmp_path / "a").mkdir()
    _, _, port, addresses = told_of(registrar := Registrar(tmp_path, print))
    assert addresses == ["127.0.0.1"]
    other = own_addresses()
    with registrar:
        for address in other:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((address, port), timeout=20)
    _, _, port, addresses = told_of(registrar := Registrar(tmp_path / "a", print, elsewhere=True))
    assert addresses == other
    with registrar:
        for address in other:
            socket.create_connection((address, port), timeout=20).close()


BEGIN = """echo "$LOCKSTEP_REGISTRAR" > told.part; mv told.part told
while ! [ -e go ]; do sleep .05; done; exec "$@" """


@pytest.mark.slow
@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")
def test_a_job_begins_though_another_user_takes_all_connections(tmp_path, compiled):
    """Silent ones, and ones with garbage, until the job has ended; few descriptors are allowed."""
    loop = [*launcher("here"), "-n", "2", compiled("here", "bsp.c"), "100", ".25", "50"]
    words = [*LOCKSTEP, "exec", "--mpicc", str(wrapper("here")), "--", "sh", "-c", BEGIN, "sh", *loop]
    few = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh", *words]
    with spawned(*few, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as ours:
        assert eventually((tmp_path / "told").exists, 60)
        port = (tmp_path / "told").read_text().split(",")[2]
        with nobody_at(unprivileged_actions.hammer, port, "400"):
            (tmp_path / "go").touch()
            _, errors = ours.communicate(timeout=60)
    assert ours.returncode == 0
    assert "two-phase waits: 2 ranks" in errors


@pytest.mark.soak
def test_a_rank_that_gets_no_answer_waits_as_mpi_does_after_a_minute(tmp_path, compiled):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        loop = [compiled("here", "bsp.c"), "100", ".25", "50"]
        text = f"LOCKSTEP_REGISTRAR=key,{tmp_path}/silent,0"
        words = [*launcher("here"), "-n", "2", "env", text, *loop]
        result = two_phase(words, "--mpicc", str(wrapper("here")))
    assert result.returncode == 0, result.stderr
    assert "no program that uses" in result.stderr
