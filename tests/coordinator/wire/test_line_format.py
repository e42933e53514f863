"""Lines that hold dataclasses: all of a set-up comes back, and nothing else can be made of a line."""

import json
import pickle
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from coordinator.wire import protocol
from coordinator.wire.agent_config import SETUP, Setup
from coordinator.wire.line_format import LineError, LineFormat, by_name
from coordinator.wire.zmq_transport import Keys
from workloads.options import Options, Remedy


def setup(bind=True):
    """A set-up with everything in it."""
    options = Options(bind=bind, spin_switches=3, remedy=Remedy("defer", 2, 40))
    return Setup(
        "/run/\u00e4",
        "tcp://127.0.0.1:1",
        "driver",
        Keys("public", "secret"),
        "signals",
        2.0,
        options,
        driver=5,
        trees=((0, "77 5"), (2, "78 6")),
        number=3,
    )


@pytest.mark.parametrize("bind", [True, False, "job"])
def test_a_set_up_comes_back_however_processes_are_bound(bind):
    assert SETUP.decode(SETUP.encode(setup(bind))) == setup(bind)


def changed(change):
    """A set-up whose document was changed."""
    document = json.loads(SETUP.encode(setup()))
    change(document)
    return json.dumps(document).encode()


VERSION = f'"version":{protocol.AGENTS_VERSION}'.encode()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"5",
        b"[" * 100_000,
        b"9" * 5000,
        pickle.dumps(setup()),
        SETUP.encode(setup()).replace(VERSION, b'"version":3', 1),
        changed(lambda document: document.pop("version")),
        changed(lambda document: document.update(more=1)),
        changed(lambda document: document["options"].pop("local")),
        changed(lambda document: document.update({"class": "Popen"})),
        changed(lambda document: document["options"].update({"class": "Remedy"})),
        changed(lambda document: document["options"].update({"class": ["Options"]})),
        changed(lambda document: document["options"].update(spin_switches="x")),
        changed(lambda document: document["options"].update(spin_switches=-1)),
        changed(lambda document: document.update(number=True)),
        changed(lambda document: document.update(lease_s=10**400)),
        changed(lambda document: document.update(lease_s=float("inf"))),
        changed(lambda document: document.update(trees=[[1, 2]])),
        changed(lambda document: document.update(keys=None)),
        protocol.TO_AGENT.encode(protocol.End()),
    ],
    ids=range(20),
)
def test_anything_else_is_refused(line):
    with pytest.raises(LineError):
        SETUP.decode(line)


def test_a_line_can_become_nothing_but_what_its_reader_asks_for():
    """Hundreds of damaged lines: each is refused, or gives the classes that it may."""
    random_ = random.Random(1)
    good = SETUP.encode(setup())
    for _ in range(500):
        line = bytearray(good)
        for _ in range(random_.randrange(1, 4)):
            place = random_.randrange(len(line))
            line[place : place + random_.randrange(3)] = random_.choice(
                [b"", b"{", b"]", b"0", b'"', b"x", b","]
            )
        with suppress(LineError):
            assert type(SETUP.decode(bytes(line))) is Setup


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
