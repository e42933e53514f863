"""A rank's line to its agent, with a socket that answers as an agent does."""

import json
import os
import socket
import time

import pytest

from workloads.agent_line import AgentLine, StartOrder


@pytest.fixture
def ends(tmp_path):
    """A rank's line and the agent's end of it, after the rank has said who it is."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(tmp_path / "a"))
        server.listen()
        line = AgentLine(str(tmp_path / "a"), job=3, rank=1)
        agent, _ = server.accept()
        with agent:
            hello = json.loads(agent.makefile().readline())
            assert (hello["type"], hello["job"], hello["rank"]) == ("hello", 3, 1)
            yield line, agent


def say(agent, **message):
    agent.sendall(json.dumps(message).encode() + b"\n")


def test_a_rank_sleeps_until_the_instant_at_which_it_begins(ends, monkeypatch):
    line, agent = ends
    slept_s = []
    monkeypatch.setattr(time, "sleep", slept_s.append)
    at_ns, cores = time.monotonic_ns() + 5_000_000_000, sorted(os.sched_getaffinity(0))
    say(agent, type="start", processor=cores[0], ranks=[1, 0], cores=cores, at_ns=at_ns)
    assert line.begin() == StartOrder(cores[0], (1, 0))
    assert len(slept_s) == 1 and 0 < slept_s[0] <= 5


def test_a_workload_that_is_over_begins_no_rank(ends):
    line, agent = ends
    say(agent, type="leave")
    assert line.begin() is None


def test_a_rank_hears_of_new_cores_once_and_never_waits_for_them(ends):
    line, agent = ends
    assert line.wish() is None
    say(agent, type="resize", cores=[2, 0])
    assert line.wish() == [2, 0]
    assert line.wish() is None


def test_a_rank_waits_asleep_for_an_agent_that_comes_later(tmp_path, monkeypatch):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        coming = [lambda: server.bind(str(tmp_path / "a")), server.listen]

        def sleep(seconds):
            assert 0 < seconds < 1
            coming.pop(0)()

        monkeypatch.setattr(time, "sleep", sleep)
        AgentLine(str(tmp_path / "a"), job=3, rank=1)
    assert not coming
