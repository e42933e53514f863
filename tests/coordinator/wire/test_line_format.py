"""Lines that hold dataclasses: all of a workload comes back, and nothing else can be made of a line."""

import dataclasses
import json
import pickle
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from coordinator import policies
from coordinator.drive import preflight
from coordinator.drive import run_log as log
from coordinator.drive.nodes import Contacts
from coordinator.drive.run_log import BEGINNING, EVENT, Beginning
from coordinator.host.launchers import Hydra
from coordinator.view import ExecutionTime
from coordinator.wire import protocol
from coordinator.wire.line_format import LineError, LineFormat, by_name
from coordinator.wire.zmq_transport import Keys
from coordinator.workload import Node, ParallelJob, Switch, Workload
from harness.measure import calibrate, measured
from harness.store import conditions
from workloads.options import Options
from workloads.program import Program
from workloads.work import Command, InteractiveWork, SequentialWork

WORKS = [
    Program(pattern="NEWS", processes=4, granularity_us=100, imbalance=1.5, phases=7),
    Command(("./my app", "--x=ä\udcff"), 2, launcher="/opt/mpiexec"),
    SequentialWork(0.5),
    InteractiveWork(1.0, 2.0, 3),
]


def beginning(policy="gang"):
    """A beginning with everything in it."""
    jobs = [ParallelJob(number, work, number / 3) for number, work in enumerate(WORKS)]
    jobs[0] = dataclasses.replace(jobs[0], estimate=ExecutionTime(1.0, 1.25))
    workload = Workload(
        tuple(jobs), policies.create(policy, {}), (), nodes=(Node("a", 2), Node("b")), purpose="for us"
    )
    launcher = Hydra("/bin/mpiexec", "5")
    launch_plan = preflight.LaunchPlan(None, "why", launcher, {1: launcher}, {2: {"LD_PRELOAD": "/a.so"}})
    join = protocol.Join("a", (0, 2), 77, "promptly")
    agents = ((Keys("p", "s"), join, 5), (Keys("q", "t"), join, 6))
    return Beginning(
        workload, launch_plan, Contacts(("tcp://127.0.0.1:1",), Keys("public", "secret"), agents), 5, 7
    )


EVENTS = [
    log.Guarded(5),
    log.Launched(0, 7),
    log.Ready(1, -3),
    log.Evolved(1, 2),
    log.Observed(1, 2, (0, 3)),
    log.Left(0, "why", {0: {"rank": 0, "times": [1, None, 0.5]}, 1: {}}),
    log.Lost(1, (2, 3), "it is lost", (0,), ()),
    log.Advanced(11),
    log.Switched((Switch(0, 1, 2, 3), Switch(1, 2, 3, 4, 1))),
]


@pytest.mark.parametrize(
    ("policy", "bind"), [*((name, True) for name in policies.known()), ("gang", False), ("gang", "job")]
)
def test_a_beginning_comes_back_whatever_its_policy_and_however_processes_are_bound(policy, bind):
    made = beginning(policy)
    made = dataclasses.replace(made, workload=dataclasses.replace(made.workload, options=Options(bind=bind)))
    assert BEGINNING.decode(BEGINNING.encode(made)) == made


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back(event):
    assert EVENT.decode(EVENT.encode(event)) == event


def test_what_a_run_is_for_comes_back():
    constants = calibrate.Constants(
        remote_wakeup_us=1.0,
        local_switch_us=2.0,
        latency_us=3.0,
        slots={"signals": {"slot_cost_us": [1.0, 2.0], "lateness_us": []}},
        tick_lateness_us=[15.0],
        switch_scatter_us=[-1.0, 1.0],
        idle_times_us=[500.0],
        switch_after_idle_us=[[3.0, 4.0]],
        send_after_idle_us=[[1.0, 2.0]],
        overrun_us=[2.5],
        slot_cost_us=[],
        lateness_us=[],
        walk_steps_ns={1 << 20: 3.5},
    )
    before = conditions.Moment(0.5, 1.0, 2.0, 3.0, None)
    purpose = measured.Purpose(
        Path("/a/bä\udcff.sqlite"), "digest", (0, 1, "policy", "{}", 2), constants, before, 0.1
    )
    assert measured.PURPOSE.decode(measured.PURPOSE.encode(purpose).decode()) == purpose
    assert measured.purpose_of(dataclasses.replace(beginning().workload, purpose="for us")) is None


def changed(change):
    """A beginning whose document was changed."""
    document = json.loads(BEGINNING.encode(beginning()))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"5",
        b"[" * 100_000,
        b"9" * 5000,
        pickle.dumps(beginning()),
        BEGINNING.encode(beginning()).replace(b'"version":2', b'"version":3', 1),
        changed(lambda document: document.pop("version")),
        changed(lambda document: document.update(more=1)),
        changed(lambda document: document["workload"].pop("seed")),
        changed(lambda document: document.update({"class": "Popen"})),
        changed(lambda document: document["workload"]["policy"].update({"class": "Program"})),
        changed(lambda document: document["workload"]["policy"].update({"class": ["Gang"]})),
        changed(lambda document: document["workload"]["policy"].update(quantum_ms="x")),
        changed(lambda document: document["workload"]["policy"].update(quantum_ms=-1)),
        changed(lambda document: document["workload"]["jobs"][0]["program"].update(processes=True)),
        changed(lambda document: document["workload"]["jobs"][0]["program"].update(imbalance=10**400)),
        changed(
            lambda document: document["launch_plan"]["own"].update(x=document["launch_plan"]["launcher"])
        ),
        changed(lambda document: document["contacts"].update(agents=[[1, 2]])),
        changed(lambda document: document["contacts"].update(keys=None)),
        EVENT.encode(log.Guarded(5)),
    ],
    ids=range(20),
)
def test_anything_else_is_refused(line):
    with pytest.raises(LineError):
        BEGINNING.decode(line)


def test_a_line_can_become_nothing_but_what_its_reader_asks_for():
    """Hundreds of damaged lines: each is refused, or gives the classes that it may."""
    random_ = random.Random(1)
    good = BEGINNING.encode(beginning())
    for _ in range(500):
        line = bytearray(good)
        for _ in range(random_.randrange(1, 4)):
            place = random_.randrange(len(line))
            line[place : place + random_.randrange(3)] = random_.choice(
                [b"", b"{", b"]", b"0", b'"', b"x", b","]
            )
        with suppress(LineError):
            assert type(BEGINNING.decode(bytes(line))) is Beginning


@dataclass(frozen=True)
class Held:
    """What fields may hold besides."""

    text: str
    number: float
    flag: bool
    table: Mapping[str, Any]


def test_plain_values_keep_their_types():
    held = LineFormat(by_name(Held), 3)
    assert held.decode(held.encode(Held("x", 1, True, {"a": [1, {"class": "Held"}]}))) == Held(
        "x", 1.0, True, {"a": [1, {"class": "Held"}]}
    )
    for wrong in (Held("x", True, True, {}), Held("x", 1.0, 1, {}), Held(5, 1.0, True, {})):
        with pytest.raises(LineError):
            held.decode(held.encode(wrong))
