"""Agents that one launch starts: their keys, the end of one, and launchers that cannot do it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from runs import command, eventually, state

from coordinator import policies
from coordinator.drive import agents
from coordinator.drive.nodes import Nodes
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.launchers import Hydra, OpenMpi, Prrte, Srun
from coordinator.host.loop import Loop
from coordinator.host.processes import RUN, marked
from coordinator.wire import agent_config, protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.protocol import TO_DRIVER
from coordinator.wire.zmq_transport import Keys, Line
from coordinator.workload import Node, Workload

EACH = 'for PMI_RANK in $(seq 0 $(($0 - 1))); do export PMI_RANK; "$@" & done; wait'


class Shell(Hydra):
    """Starts all processes on this host."""

    def together(self, command, hosts):
        return ["/bin/sh", "-c", EACH, str(len(hosts)), *command]


AGENT = ("/bin/sh", "-c", "exec sleep 60")


def test_keys_that_follow_from_others_are_pairs_that_differ():
    seed = Keys.make()
    other = Keys.make()
    pairs = [keys.of(number) for keys in (seed, other) for number in range(4)]
    assert pairs[0] == seed and len({pair.public for pair in pairs}) == len(pairs)
    assert seed.of(2) == Keys(seed.public, seed.secret).of(2)


def test_only_launchers_that_let_siblings_live_start_agents_together():
    hosts = ["b", "a"]
    srun = Srun("srun", "23", "pmi2").together(["x"], hosts)
    assert {
        "--distribution=arbitrary",
        "--nodelist=b,a",
        "--kill-on-bad-exit=0",
        "--no-kill",
        "--wait=0",
        "--nodes=2",
        "--ntasks=2",
    } <= set(srun)
    assert "--kill-on-bad-exit=1" in Srun("srun", "23").argv(2, ["x"], hosts)
    hydra = Hydra("m", "5").together(["x"], hosts)
    assert hydra[-5:-1] == ["b:1,a:1", "-disable-auto-cleanup", "-n", "2"]
    assert not OpenMpi("m", "5").together(["x"], hosts) and not Prrte("m", "3").together(["x"], hosts)


FIND = """
import json, sys
from coordinator.wire import agent_config
found = agent_config.find_own(sys.argv[1])
with open(found.keys.public.encode().hex(), "x") as file:
    json.dump([found.directory, found.keys.secret], file)
"""


@pytest.mark.parametrize("answered", [b"", b"cmd=response_to_init rc=0\n"])
def test_an_agent_whose_launcher_ends_before_it_has_its_set_up_says_so(answered, monkeypatch):
    ours, its = socket.socketpair()
    its.send(answered)
    its.close()
    monkeypatch.setenv("PMI_FD", str(ours.detach()))
    monkeypatch.setenv("PMI_RANK", "1")
    with pytest.raises(SystemExit, match="the launcher of the agents has ended"):
        agent_config.find_own("PMI_RANK")


@pytest.mark.slow
def test_all_processes_of_a_real_launch_have_the_set_up_and_keys_of_their_own(tmp_path):
    launcher = find_launcher()
    seed = Keys.make()
    long = "/run/" + "directory" * 200  # more than fits into one value
    setup = Setup(long, "tcp://127.0.0.1:1", "driver", seed, None, 2.0, number=8)
    program = [*agents.TELLING_ENDS, launcher.rank, sys.executable, "-P", "-c", FIND, launcher.rank]
    words = launcher.together(program, ["localhost"] * 3)
    result = subprocess.run(
        words,
        input=setup.encode(),
        env=launcher.environment({}, hosts=["localhost"]),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == ["0", "1", "2"]
    documents = {path.name: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    own = [seed.of(number) for number in (8, 9, 10)]
    assert documents == {keys.public.encode().hex(): [long, keys.secret] for keys in own}


@pytest.mark.slow
def test_the_end_of_one_agent_is_noticed_at_once_and_ends_no_other(directory, monkeypatch):
    monkeypatch.setattr(agents, "ARGV", AGENT)
    lost = []
    crowd = Workload((), policies.create("none", {}), (), nodes=(Node("127.0.0.1", 2),) * 3)
    shell = Shell("/bin/false", "1")
    nodes = Nodes(crowd, None, directory, shell, lambda *_: None, lambda *loss: lost.append(loss))
    loop = Loop()
    lines = ExitStack()
    begin_s = time.monotonic()
    nodes.start(loop)

    def of_run(words):
        """The processes of the run with these words, each with its environment."""
        ours = {
            pid: environment for pid, environment in marked().items() if environment[RUN] == directory.run
        }
        return {pid: environment for pid, environment in ours.items() if command(pid)[: len(words)] == words}

    def alive():
        return {int(environment["PMI_RANK"]): pid for pid, environment in of_run(["sleep", "60"]).items()}

    assert eventually(lambda: len(alive()) == 3)
    (launcher,) = of_run(["/bin/sh", "-c", EACH])
    for number, setup in enumerate(nodes.setups):
        line = Line(setup.endpoint, setup.driver_key, setup.keys)
        line.send(TO_DRIVER.encode(protocol.Join(f"n{number}", (0, 1), 1, "")))
        lines.callback(line.close)
    assert eventually(lambda: nodes.receive() or nodes.joined)
    nodes.check(time.monotonic_ns())
    assert not lost
    os.kill(alive()[1], signal.SIGKILL)
    assert eventually(lambda: nodes.check(time.monotonic_ns()) or lost, 10)
    assert [processors for processors, _ in lost] == [(2, 3)] and "its agent has ended" in lost[0][1]
    assert time.monotonic() - begin_s < 30  # not by its silence: it may be silent for longer
    assert sorted(alive()) == [0, 2]
    os.kill(launcher, signal.SIGKILL)
    assert eventually(lambda: state(launcher) in ("", "Z"), 10)
    loop.wait(time.monotonic_ns() + 10**7)
    nodes.check(time.monotonic_ns())
    assert len(lost) == 1, "others may have no launcher any more, and go on"
    lines.close()
    for pid in alive().values():
        os.kill(pid, signal.SIGKILL)
    begin_s = time.monotonic()
    nodes.end()
    assert time.monotonic() - begin_s < 5
    loop.close()
    directory.remove()
    directory.unlock()
