"""Fixtures of tests of real processes: a runtime directory, a run in it, and the agent of a run."""

import pytest
from hosts import Host

from coordinator import policies
from coordinator.drive.nodes import Nodes
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.processes import Process
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.workload import Workload


@pytest.fixture
def runtime(tmp_path_factory, monkeypatch):
    """A runtime directory for one test, with a name short enough for sockets in it."""
    path = tmp_path_factory.mktemp("r")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(path))
    return path


@pytest.fixture
def directory(runtime):
    """The directory of a run of which we are the driver."""
    return RunDirectory.create()


@pytest.fixture
def host(request, directory):
    """The agent of the run; its lease, the parameter, is long: the test, not the agent, may be slow."""
    host = Host(directory, "signals", lease_s=getattr(request, "param", 20.0))
    guardian = Process(host.hear(protocol.Join)[0].guardian)
    yield host
    host.say(protocol.End())
    host.agent.wait(10)
    host.hub.close()
    assert guardian.wait(10)
    for child in host.children:
        child.wait(5)
    assert not directory.path.exists()


@pytest.fixture
def nodes(directory):
    """The driver's side of one node, whose agent the test may be; ``heard`` is what it has passed on."""
    workload = Workload((), policies.create("none", {}), (0,))
    heard = []
    node_set = Nodes(
        workload, None, directory, find_launcher(), lambda *message: heard.append(message), lambda *loss: None
    )
    node_set.heard = heard
    yield node_set
    node_set.end()
    directory.remove()
    directory.unlock()
