"""The driver's end of a real agent, for tests that speak to it themselves."""

import subprocess
import sys
import time
from pathlib import Path

from runs import eventually

from coordinator.host.environment import forwarded
from coordinator.host.processes import JOB
from coordinator.wire import protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.zmq_transport import Hub, Keys
from coordinator.workload import LEASE_S


class Host:
    """An agent, with ranks that only speak its protocol."""

    def __init__(self, directory, mechanism, stderr=None, **options):
        self.directory = directory
        self.keys, self.agent_keys = Keys.make(), Keys.make()
        self.endpoint = f"ipc://{directory.hub}"
        self.hub = Hub(self.endpoint, self.keys, {self.agent_keys.public: 0})
        self.setup = Setup(
            str(directory.path),
            self.endpoint,
            self.keys.public,
            self.agent_keys,
            mechanism,
            **{"lease_s": LEASE_S, **options},
        )
        self.agent = subprocess.Popen(
            [sys.executable, "-m", "coordinator.node.agent"],
            env=forwarded(directory.marks),
            stdin=subprocess.PIPE,
            start_new_session=True,
            stderr=stderr,
            pass_fds=[] if self.setup.driver is None else [self.setup.driver],
        )
        assert self.agent.stdin is not None
        with self.agent.stdin as stdin:
            stdin.write(self.setup.encode().encode())
        self.heard = []
        self.children = []
        self.echoing = True

    def listen(self):
        while arrived := self.hub.receive():
            for message in (TO_DRIVER.decode(line) for _, line in arrived):
                if isinstance(message, protocol.Beat) and self.echoing:
                    now_ns = time.monotonic_ns()
                    self.say(protocol.Echo(message.sent_ns, now_ns, now_ns))
                self.heard.append(message)

    def hear(self, kind, count=1):
        def found():
            return [one for one in self.heard if isinstance(getattr(one, "said", one), kind)]

        assert self.eventually(lambda: len(found()) >= count), self.heard
        return found()

    def eventually(self, condition, timeout_s=60.0):
        """As ``runs.eventually``, answering beats meanwhile."""
        return eventually(lambda: self.listen() or condition(), timeout_s)

    def say(self, message):
        self.hub.send(0, TO_AGENT.encode(message))

    def rank(self, job, rank, **variables):
        script = Path(__file__).parent / "fake_rank.py"
        child = subprocess.Popen(
            [sys.executable, "-S", str(script), str(self.directory.socket), str(job), str(rank)],
            env=forwarded({**self.directory.marks, JOB: str(job), **variables}),
        )
        self.children.append(child)
        return child
