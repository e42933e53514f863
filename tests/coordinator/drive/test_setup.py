"""How an agent gets what it must know, so that nobody else gets its key."""

import json
import os

import pytest
from runs import command, eventually

from coordinator.host.loop import Loop
from coordinator.host.processes import marked
from coordinator.wire.agent_config import Setup, find
from coordinator.wire.line_format import LineError
from coordinator.wire.zmq_transport import Keys
from workloads.validation import InputError


def test_a_setup_survives_its_file_and_others_are_refused(tmp_path):
    setup = Setup("/x", "ipc:///y", "key", Keys("a", "b"), None, 2.0)
    setup.write(tmp_path / "agent")
    assert find(tmp_path / "agent") == setup
    (tmp_path / "agent").chmod(0o640)
    with pytest.raises(InputError, match="chmod 600"):
        find(tmp_path / "agent")
    with pytest.raises(LineError, match="version 7"):
        Setup.decode(json.dumps({**json.loads(setup.encode()), "version": 1}))
    for text in ("", "[]", "7", '{"version": 6}'):
        with pytest.raises(LineError):
            Setup.decode(text)


def on_standard_input(text, ends=False):
    """What ``find`` finds if this arrives on standard input; afterwards nothing more is there."""
    reader, writer = os.pipe()
    os.write(writer, text)
    kept = os.dup(0)
    os.dup2(reader, 0)
    if ends:
        os.close(writer)
    try:
        return find()
    finally:
        assert os.read(0, 1) == b""
        os.dup2(kept, 0)
        for descriptor in (kept, reader, *([] if ends else [writer])):
            os.close(descriptor)


def test_a_setup_is_the_first_line_of_standard_input():
    """Its end need not come, and it need not be a line."""
    setup = Setup("/x", "ipc:///y", "key", Keys("a", "b"), None, 2.0)
    assert on_standard_input(setup.encode().encode() + b"more") == setup
    assert on_standard_input(setup.encode().strip().encode(), ends=True) == setup
    with pytest.raises(LineError, match="not an agent's set-up"):
        on_standard_input(b"[" * (1 << 16))


@pytest.mark.slow
def test_no_key_of_an_agent_is_in_its_environment(nodes):
    (setup,) = nodes.setups
    loop = Loop()
    nodes.start(loop)
    assert eventually(lambda: nodes.receive() or nodes.joined)
    for pid, variables in marked().items():
        strings = [*variables.values(), *command(pid)]
        assert not any(key in word for key in (setup.keys.secret, setup.keys.public) for word in strings)
    assert {"coordinator.node.agent", "coordinator.host.guardian"} <= {
        word for pid in marked() for word in command(pid)
    }
    loop.close()
