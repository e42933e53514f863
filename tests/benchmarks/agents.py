"""Many agents on one machine: how late they are, and what a message costs.

``python tests/benchmarks/agents.py [--agents 64] [--slots-ms 100] [--seconds 10]``

Every agent has a guardian and two ranks of two jobs that take turns; the ranks sleep, so that
the machine measures agents and messages, not programs.
"""

import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import SUPPORT, parsed
from runs import between_nodes_ns, eventually

from coordinator.host.environment import forwarded
from coordinator.host.processes import JOB
from coordinator.host.rundir import RunDirectory
from coordinator.wire import protocol
from coordinator.wire.agent_config import Setup
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.wire.zmq_transport import Hub, Keys
from coordinator.workload import Switch

RANK = SUPPORT / "fake_rank.py"


class Crowd:
    """So many agents and a driver's end that only echoes and writes down."""

    def __init__(self, count):
        keys = [Keys.make() for _ in range(count)]
        own = Keys.make()
        self.directories = [RunDirectory.create() for _ in keys]
        endpoint = f"ipc://{self.directories[0].hub}"
        self.hub = Hub(endpoint, own, {key.public: number for number, key in enumerate(keys)})
        self.heard, self.switches, self.children = Counter(), [], []
        self.messages = self.busy_ns = 0
        for directory, key in zip(self.directories, keys, strict=True):
            setup = Setup(str(directory.path), endpoint, own.public, key, "signals", lease_s=20.0)
            setup.write(directory.path / "setup")
            argv = [sys.executable, "-m", "harness.cli", "agent", str(directory.path / "setup")]
            self.start(directory, argv)
            time.sleep(0.1)
            self.listen()

    def start(self, directory, argv, **variables):
        environment = forwarded({**directory.marks, **variables})
        self.children.append(subprocess.Popen(argv, env=environment, start_new_session=True))

    def listen(self):
        begin_ns = time.thread_time_ns()
        while arrived := self.hub.receive():
            for node, frame in arrived:
                message = TO_DRIVER.decode(frame)
                self.messages += 1
                self.heard[type(getattr(message, "said", message))] += 1
                if isinstance(message, protocol.Beat):
                    now_ns = time.monotonic_ns()
                    self.hub.send(node, TO_AGENT.encode(protocol.Echo(message.sent_ns, now_ns, now_ns)))
                elif isinstance(message, protocol.SwitchReport):
                    self.switches += message.switches
        self.busy_ns += time.thread_time_ns() - begin_ns

    def wait_for(self, kind, count):
        assert eventually(lambda: self.listen() or self.heard[kind] >= count, 120), self.heard

    def send(self, message):
        """Tell all agents; returns what it took in nanoseconds."""
        begin_ns = time.thread_time_ns()
        for node in range(len(self.directories)):
            self.hub.send(node, TO_AGENT.encode(message))
        return time.thread_time_ns() - begin_ns


def main():
    options = parsed(__doc__, agents=64, slots_ms=100, seconds=10.0)
    with TemporaryDirectory(prefix="ls-") as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        crowd = Crowd(options.agents)
        crowd.wait_for(protocol.Join, options.agents)
        for directory in crowd.directories:
            for job in range(2):
                argv = [sys.executable, "-S", str(RANK), str(directory.socket), str(job), "0"]
                crowd.start(directory, argv, **{JOB: str(job)})
        crowd.wait_for(protocol.RankReady, 2 * options.agents)
        start_ns = time.monotonic_ns() + 10**9
        lengths_ns = (options.slots_ms * 10**6,) * 2
        places = ((0, 0, 0), (1, 0, 0))
        table = protocol.Table(start_ns, start_ns, True, lengths_ns, (((0,),), ((1,),)), places)
        sent_ns = crowd.send(table)
        crowd.messages = crowd.busy_ns = 0
        end_s = time.monotonic() + options.seconds + 1
        while time.monotonic() < end_s:
            crowd.listen()
            time.sleep(0.005)
        messages, busy_ns = crowd.messages, crowd.busy_ns
        crowd.send(protocol.End())
        eventually(lambda: crowd.listen() or all(child.poll() is not None for child in crowd.children), 60)
        crowd.hub.close()
    print(report(options, crowd.switches, messages, busy_ns, sent_ns))


def report(options, switches, messages, busy_ns, sent_ns):
    done = [Switch(0, due_ns, late_ns, 0) for _, due_ns, late_ns, _ in switches]
    late = sorted(switch.switch_delay_ns / 1e3 for switch in done)
    apart = [ns / 1e3 for ns in between_nodes_ns(done)]

    def share(values, part):
        return values[min(len(values) - 1, int(part * len(values)))]

    return (
        f"{options.agents} agents, slots of {options.slots_ms} ms: {len(switches)} switches\n"
        f"lateness us: p50 {share(late, 0.5):.0f}, p99 {share(late, 0.99):.0f}, worst {late[-1]:.0f}\n"
        f"between agents us: p50 {share(apart, 0.5):.0f}, p99 {share(apart, 0.99):.0f}\n"
        f"messages to the driver: {messages / (options.seconds + 1):.0f} a second, "
        f"{busy_ns / max(1, messages) / 1e3:.0f} us of CPU time each with its answer\n"
        f"a table: {sent_ns / options.agents / 1e3:.0f} us for each agent"
    )


if __name__ == "__main__":
    main()
