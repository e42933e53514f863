"""Hostile and malformed messages: none is acted upon, memory stays flat, service goes on."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from hosts import Host
from runs import eventually

from coordinator import policies, protocol
from coordinator.launch import find_launcher
from coordinator.link import Hub, Keys, Line
from coordinator.nodes import Nodes
from coordinator.processes import Process
from coordinator.protocol import TO_AGENT, TO_DRIVER
from coordinator.rundir import RunDirectory
from coordinator.workload import Workload

MESSAGES = 10_000

GOOD = TO_AGENT.encode(protocol.Leave())


def garbage(seed: int) -> Iterator[bytes]:
    """Lines that are no message of ours, most of them nearly."""
    random_ = random.Random(seed)
    table = TO_AGENT.encode(protocol.Table(1, 0, 0, True, (1,), (((0,),),), ((0, ((0, 0),)),)))
    for number in range(MESSAGES):
        line = bytearray(random_.choice([GOOD, table]))
        match number % 5:
            case 0:
                yield random_.randbytes(random_.randrange(200))
            case 1:
                document = json.loads(line)
                yield json.dumps({**document, "version": random_.randrange(2, 9)}).encode()
            case 2:
                yield bytes(line[: random_.randrange(len(line) - 2)])
            case 3:
                yield json.dumps({**json.loads(line), "pid": 1}).encode()
            case _:
                yield b"[" * random_.randrange(1, 100_000 if number % 1000 == 4 else 50)


def memory_bytes(pid: int) -> int:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))
    directory = RunDirectory.create()
    host = Host(directory, "signals", lease_s=20.0)  # the test, not the agent, may be slow
    guardian = Process(host.hear(protocol.Join)[0].guardian)
    yield host
    host.say(protocol.End())
    host.agent.wait(10)
    host.hub.close()
    assert guardian.wait(10)


@pytest.mark.slow
def test_an_agent_drops_what_is_no_message_and_goes_on(host: Host) -> None:
    before = memory_bytes(host.agent.pid)
    for number, line in enumerate(garbage(1)):
        host.hub.send(0, line)
        if number % 100 == 0:
            host.listen()
    assert host.eventually(lambda: getattr(host.heard[-1], "dropped", 0) == MESSAGES)
    assert memory_bytes(host.agent.pid) - before < 8 << 20
    host.rank(0, 0)
    assert host.hear(protocol.Ready)


@pytest.mark.slow
def test_who_has_no_key_is_not_heard_and_hears_nothing(host: Host) -> None:
    stranger = Line(host.endpoint, host.keys.public, Keys.make())
    deaf = zmq.Context().socket(zmq.DEALER)
    deaf.connect(host.endpoint)
    heard = len(host.heard)
    for _ in range(100):
        stranger.send(TO_DRIVER.encode(protocol.Trouble("let me in", fatal=True)))
        deaf.send(TO_DRIVER.encode(protocol.Trouble("let me in", fatal=True)), zmq.NOBLOCK)
        host.listen()
    assert host.eventually(lambda: host.hub.refused > 0)
    assert not any(isinstance(message, protocol.Trouble) for message in host.heard[heard:])
    assert stranger.receive() == [] and not deaf.poll(100)
    stranger.close(0)
    deaf.close(0)


@pytest.mark.slow
def test_a_node_speaks_for_itself_alone(tmp_path: Path) -> None:
    """Whatever name a peer takes, its key says which node it is."""
    keys, first, second = Keys.make(), Keys.make(), Keys.make()
    endpoint = f"ipc://{tmp_path}/hub"
    hub = Hub(endpoint, keys, {first.public: 0, second.public: 1})
    lines = [Line(endpoint, keys.public, own) for own in (first, second)]
    heard: list[tuple[int, bytes]] = []

    def arrived(count: int) -> bool:
        heard.extend(hub.receive())
        return len(heard) >= count

    lines[1].send(b"from the second")
    assert eventually(lambda: arrived(1)) and heard[-1] == (1, b"from the second")
    hub.send(0, b"nobody is there yet")
    hub.send(1, b"hello")
    assert eventually(lines[1].receive) == [b"hello"]
    for line in lines:
        line.close(0)
    hub.close(0)


@pytest.mark.slow
def test_a_driver_drops_what_is_no_message_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    directory = RunDirectory.create()
    heard: list[Any] = []
    workload = Workload((), policies.create("none", {}), (0,))
    nodes = Nodes(
        workload, None, directory, find_launcher(), lambda *message: heard.append(message), lambda *loss: None
    )
    (setup,) = nodes.setups
    line = Line(setup.endpoint, setup.driver_key, setup.keys)
    before = memory_bytes(os.getpid())
    for number, text in enumerate(garbage(2)):
        line.send(text)
        if number % 100 == 0:
            nodes.receive()
    line.send(TO_DRIVER.encode(protocol.Trouble("the last", fatal=False)))
    assert eventually(lambda: nodes.receive() or heard)
    assert nodes.results()[0].dropped == MESSAGES and len(heard) == 1
    assert memory_bytes(os.getpid()) - before < 16 << 20
    line.close(0)
    nodes.end()
    directory.remove()
