"""Hostile and malformed messages: none is acted upon, memory stays flat, service goes on."""

import contextlib
import dataclasses
import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import get_args, get_origin, get_type_hints

import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from job_sets import JobSet
from places import SUPPORT
from runs import eventually

from coordinator import policies
from coordinator.decide.conductor import Conductor
from coordinator.drive import preflight
from coordinator.drive.driver import Driver
from coordinator.drive.preflight import LaunchPlan
from coordinator.drive.run_context import RunContext
from coordinator.drive.running_jobs import RunningJobs
from coordinator.host import processes
from coordinator.host.environment import forwarded
from coordinator.host.interrupt import Interrupt
from coordinator.host.launchers import Hydra
from coordinator.host.processes import JOB
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.zmq_transport import Hub, Keys, Line
from coordinator.workload import ParallelJob, Workload
from workloads.program import Program
from workloads.record import OURS

pytestmark = pytest.mark.slow

COUNTS = [600, pytest.param(10_000, marks=pytest.mark.soak)]
"""Messages: some in every run of the suite, all when asked for."""

GOOD = TO_AGENT.encode(protocol.Leave())

TABLE = protocol.Table(0, 0, True, (1,), (((0,),),), ((0, 0, 0),))

IMPOSSIBLE = [
    {"lengths_ns": ()},
    {"runs": ()},
    {"lengths_ns": (), "runs": ()},
    {"lengths_ns": (0,)},
    {"lengths_ns": (-5,)},
    {"lengths_ns": (1, 1), "runs": (((0,),), ((0,), (0,)))},
    {"placements": ((0, 0, 1),)},
    {"placements": ((0, 0, -1),)},
    {"placements": ((0, 0),)},
    {"allowed_ranks": (((0, 0),), ())},
]
"""What makes a table one that cannot be carried out."""


def garbage(seed, count):
    """Lines that are no message of ours, most of them nearly."""
    random_ = random.Random(seed)
    table = TO_AGENT.encode(TABLE)
    for number in range(count):
        line = bytearray(random_.choice([GOOD, table]))
        match number % 6:
            case 5:
                yield TO_AGENT.encode(dataclasses.replace(TABLE, **random_.choice(IMPOSSIBLE)))
            case 0:
                yield random_.randbytes(random_.randrange(200))
            case 1 if number % 12 == 1:
                kind = random_.choice([b"E", b"B", b"T"]) + bytes([protocol.AGENTS_VERSION])
                yield kind + random_.randbytes(random_.randrange(1, 12))
            case 1:
                version = protocol.AGENTS_VERSION + random_.randrange(1, 4)
                yield json.dumps({**json.loads(GOOD), "version": version}).encode()
            case 2:
                yield bytes(line[: random_.randrange(len(line) - 2)])
            case 3:
                yield json.dumps({**json.loads(GOOD), "pid": 1}).encode()
            case _:
                yield b"[" * random_.randrange(1, 100_000 if number % 1000 == 4 else 50)


def memory_bytes(pid):
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.parametrize("count", COUNTS)
def test_an_agent_drops_what_is_no_message_and_goes_on(host, count):
    before = memory_bytes(host.agent.pid)
    for number, line in enumerate(garbage(1, count)):
        host.hub.send(0, line)
        if number % 100 == 0:
            host.listen()
    assert host.eventually(lambda: getattr(host.heard[-1], "dropped", 0) == count)
    assert memory_bytes(host.agent.pid) - before < 8 << 20
    host.rank(0, 0)
    assert host.hear(protocol.RankReady)


def test_who_has_no_key_is_not_heard_and_hears_nothing(host):
    message = TO_DRIVER.encode(protocol.Failure("let me in", fatal=True))
    heard = len(host.heard)
    with (
        contextlib.closing(Line(host.endpoint, host.keys.public, Keys.make())) as stranger,
        zmq.Context() as context,
        context.socket(zmq.DEALER) as deaf,
    ):
        deaf.linger = 0
        deaf.connect(host.endpoint)
        for _ in range(100):
            stranger.send(message)
            with contextlib.suppress(zmq.Again):  # it was hung up on, and has not connected again
                deaf.send(message, zmq.NOBLOCK)
            host.listen()
        assert host.eventually(lambda: host.hub.refused > 0)
        assert not any(isinstance(message, protocol.Failure) for message in host.heard[heard:])
        assert stranger.receive() == [] and not deaf.poll(100)


@pytest.mark.parametrize("count", COUNTS)
def test_who_speaks_out_of_turn_as_a_rank_is_cut_off_and_nothing_of_it_is_told(host, count):
    before = memory_bytes(host.agent.pid)
    script = SUPPORT / "hostile_rank.py"
    rank = subprocess.Popen(
        [sys.executable, str(script), str(host.directory.socket), "0", "3", str(count)],
        env=forwarded({**host.directory.marks, JOB: "0"}),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert host.eventually(lambda: rank.poll() is not None, 300)
    assert rank.communicate()[0] == "0\n"
    told = [one.said for one in host.heard if isinstance(one, protocol.OfRank)]
    assert all(isinstance(said, protocol.RankGone) for said in told) and host.agent.poll() is None
    assert memory_bytes(host.agent.pid) - before < 16 << 20
    host.rank(0, 0)
    assert host.hear(protocol.RankReady)


def test_a_node_speaks_for_itself_alone(tmp_path):
    """Whatever name a peer takes, its key says which node it is."""
    keys = Keys.make()
    first = Keys.make()
    second = Keys.make()
    endpoint = f"ipc://{tmp_path}/hub"
    hub = Hub(endpoint, keys, {first.public: 0, second.public: 1})
    lines = [Line(endpoint, keys.public, own) for own in (first, second)]
    heard = []

    def arrived(count):
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


@pytest.mark.parametrize("count", COUNTS)
def test_a_driver_drops_what_is_no_message_and_goes_on(nodes, count):
    (setup,) = nodes.setups
    line = Line(setup.endpoint, setup.driver_key, setup.keys)
    before = memory_bytes(os.getpid())
    for number, text in enumerate(garbage(2, count)):
        line.send(text)
        if number % 100 == 0:
            nodes.receive()
    line.send(TO_DRIVER.encode(protocol.Failure("the last", fatal=False)))
    assert eventually(lambda: nodes.receive() or len(nodes.heard) > 1)
    (_, complaint), _ = nodes.heard
    assert nodes.results()[0].dropped == count and len(nodes.heard) == 2
    assert (
        complaint.text.startswith(f"{socket.gethostname()} says what is no message") and not complaint.fatal
    )
    assert memory_bytes(os.getpid()) - before < 16 << 20
    line.close(0)


HINTS = {
    int: st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 3),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.just(False),  # of what is fatal the run ends, as it should
    str: st.text(max_size=20),
}

RECORDS = st.dictionaries(
    st.sampled_from([*OURS, "flaw", "timeline"]),
    st.none() | HINTS[int] | HINTS[str] | st.just({}),
    max_size=14,
)


def strategy(hint):
    """Any value that fits a field of a message."""
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if inner[-1] is Ellipsis:
            return st.lists(strategy(inner[0]), max_size=3).map(tuple)
        return st.tuples(*map(strategy, inner))
    if dataclasses.is_dataclass(hint):
        return st.builds(hint, **{key: strategy(inner) for key, inner in get_type_hints(hint).items()})
    if isinstance(hint, UnionType):
        return st.one_of(map(strategy, get_args(hint)))
    return RECORDS if get_origin(hint) is Mapping else HINTS[hint]


def messages():
    """Any message that an agent with the right key could send, however absurd."""
    kinds = [protocol.Join, protocol.OfRank, protocol.SwitchReport]
    kinds += [protocol.Beat, protocol.Failure]
    return st.one_of(map(strategy, kinds))


class NoNodes(JobSet):
    """In the place of the nodes: carries out nothing."""

    node_of = (0, 0)

    def send(self, message): ...

    def results(self):
        return ()


def nothing_to_end(*run, **how):
    """In the place of ``processes.ending``."""
    yield from ()
    return 0, 0


def begun(directory, interrupt):
    """The driver of a run of two jobs of two ranks that has begun, none of which is real."""
    jobs = tuple(ParallelJob(number, Program(phases=1, processes=2)) for number in range(2))
    workload = Workload(jobs, policies.create("none", {}), (0, 1))
    session, views = preflight.session(workload)
    launch_plan = LaunchPlan(None, "", Hydra("/bin/false", "1"), {})
    begin_ns = time.monotonic_ns()
    context = RunContext(directory, workload, launch_plan, lambda text: None, begin_ns + (1 << 40), begin_ns)
    driver = Driver(context, session, views, interrupt)
    driver._nodes = NoNodes()
    driver._jobs = RunningJobs(context, None, driver._nodes)
    driver._prepared = True
    conductor = Conductor(session, views, JobSet())
    conductor.prepare()
    driver._jobs.conductor = conductor
    for number, part in driver._jobs.states.items():
        part.launched = part.ranks = (0, 1)
        conductor.ready(number, 0)
    conductor.advance(0)
    return driver


@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.soak)])
def test_whatever_an_agent_says_the_driver_goes_on_and_its_result_can_be_stored(tmp_path, monkeypatch, count):
    """It has the right key: its jobs may fail, and nothing else."""
    monkeypatch.setattr(processes, "ending", nothing_to_end)
    directory = RunDirectory(tmp_path)

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(messages(), max_size=8))
    def goes_on(said):
        with Interrupt() as interrupt:
            driver = begun(directory, interrupt)
            for message in said:
                with contextlib.suppress(LineError):  # as of peers out of order
                    decoded = TO_DRIVER.decode(TO_DRIVER.encode(message))
                    if not isinstance(decoded, protocol.Join | protocol.Beat):
                        driver._on_message(0, decoded)
            for part in driver._jobs.states.values():
                assert not part.records  # nothing of this is a record
            json.dumps(driver.result("").warnings).encode()

    goes_on()


def test_whatever_an_agent_says_of_its_node_is_borne(nodes):
    @settings(max_examples=300, deadline=None)
    @given(messages())
    def bears(message):
        nodes._hear(0, TO_DRIVER.encode(message))
        json.dumps([dataclasses.asdict(node) for node in nodes.results()], allow_nan=False)

    bears()
