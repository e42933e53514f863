"""How long a launcher takes to start agents on many hosts: one launch of all against one launch for each.

    python -P tests/benchmarks/launches.py [--hosts 16 128]

Every host is an address of this machine's loopback, the way there (``ssh``) is a shell, and an agent is
a shell that reads its set-up: what is left is the work of the launcher and its proxies, all on this machine.
"""

import os
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled

from coordinator.drive import agents
from coordinator.host import processes
from coordinator.host.launcher_choice import find_launcher
from coordinator.host.rundir import RunDirectory
from coordinator.wire.agent_config import Setup
from coordinator.wire.zmq_transport import Keys

WAY = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
shift
exec /bin/sh -c "$*"
"""
"""In place of ssh."""


def started_s(hosts, *, together):
    """From the first launch until all agents have run."""
    directory, launcher = RunDirectory.create(), find_launcher()
    setup = Setup(str(directory.path), "tcp://127.0.0.1:1", "driver", Keys.make(), None, 2.0)
    begin_s = time.monotonic()
    if together:
        launches = [agents.start_elsewhere(directory, setup, launcher, hosts, range(len(hosts)))]
    else:
        each = enumerate(hosts)
        launches = [agents.start_elsewhere(directory, setup, launcher, [host], [n]) for n, host in each]
    for launch in launches:
        status = launch.program.wait()
        assert status == 0, (status, directory.log(agents.log_name(0)).read_text())
    spent_s = time.monotonic() - begin_s
    if together:
        said = directory.log(agents.ends_name(0)).read_text().split()
        assert sorted(map(int, said)) == list(range(len(hosts))), said
    directory.remove()
    directory.unlock()
    return spent_s


def main():
    options = parsed(__doc__, hosts={"type": int, "nargs": "*", "default": [16, 128]})
    processes.raise_descriptor_limit()
    headed("hosts", "one launch, s", "one each, s")
    agents.ARGV = ("/bin/sh", "-c", "test $PMI_RANK != 0 || read setup")
    with TemporaryDirectory(prefix="ls-") as runtime:
        way = Path(runtime, "way")
        way.write_text(WAY)
        way.chmod(0o700)
        ways = {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(way), "XDG_RUNTIME_DIR": runtime}
        os.environ.update(ways)
        for count in options.hosts:
            hosts = [f"127.0.1.{number}" for number in range(1, count + 1)]
            times = [started_s(hosts, together=together) for together in (True, False)]
            tabled(count, *(f"{taken_s:.1f}" for taken_s in times))


if __name__ == "__main__":
    main()
