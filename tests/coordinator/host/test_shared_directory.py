"""One directory for temporary files that two hosts share is noticed before their sockets collide."""

import json
from pathlib import Path

import pytest
from hosts import Host

from coordinator.host import rundir
from coordinator.host.rundir import OtherHostError, RunDirectory
from coordinator.wire import protocol


def test_the_directory_of_another_host_is_not_used(directory, monkeypatch):
    assert RunDirectory.adopt(directory.path).notes() == directory.notes()
    here = rundir.this_host()
    for other in (f"other {here.split()[1]}", f"{here.split()[0]} after-its-restart"):
        monkeypatch.setattr(rundir, "this_host", lambda other=other: other)
        with pytest.raises(
            OtherHostError, match="set XDG_RUNTIME_DIR or TMPDIR to a directory that is local"
        ):
            RunDirectory.adopt(directory.path)


@pytest.mark.slow
def test_an_agent_there_says_so_and_leaves_everything_as_it_is(directory):
    (note,) = directory.notes()
    journal = json.dumps({**note, "host": "frontend 1-2-3"}) + "\n"
    (directory.path / "journal").write_text(journal)
    host = Host(directory, None)
    (failure,) = host.hear(protocol.Failure)
    assert failure.fatal and "frontend shares the directory" in failure.text
    assert host.agent.wait(10) == 0
    host.hub.close()
    assert (directory.path / "journal").read_text() == journal
    assert not Path(directory.socket).exists()
    directory.remove()
