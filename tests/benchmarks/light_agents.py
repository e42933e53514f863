"""The driver's side of a run on many nodes, with light agents: what beats and tables cost it.

    python -P tests/benchmarks/light_agents.py [--nodes 128 1024 4096] [--seconds 10]

The driver's side is the product's (``Nodes``, ``Hub``, encryption, event loop). The light agents follow the
protocol with the product's ``Contact`` and ``Clock``: they join after sixteen exchanges, beat, and take
tables; they have no ranks, no guardian and no processes of their own. Two processes hold them all, on this
machine, and speak to the driver by TCP on its loopback: the figures have no network.

*Last table* is the time from just before the driver shares out a decision until a process has read the table
of the last of its agents, before it decodes that: two processes read all tables here. *Ordered to start* is
the time from the arrival of a job with a rank on every processor until the last agent has read the order to
let its ranks begin, behind its table; those of a real job would have been started before.
"""

import heapq
import json
import mmap
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import zmq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.drive import nodes as drive
from coordinator.host import processes
from coordinator.host.clock import Clock
from coordinator.host.environment import passed_on
from coordinator.host.launch import Adopted
from coordinator.host.launchers import Hydra
from coordinator.host.loop import Loop
from coordinator.host.rundir import RunDirectory
from coordinator.node.contact import Contact
from coordinator.node.relay import Relay
from coordinator.view import Job, Machine
from coordinator.wire import protocol, tree, zmq_transport
from coordinator.wire.agent_config import Setup
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.workload import Node, ParallelJob, Workload
from workloads.program import Program

HOLDERS = 2
"""Processes that hold light agents."""


class LightLine(zmq_transport.Line):
    """An agent's end of the line in a context that many share."""

    def __init__(self, context, setup):
        self._context, self._keys = context, setup.keys
        self._driver = self._socket = self._connected(setup.endpoint, setup.driver_key)


class LightAgent:
    """Follows the protocol, and writes down when tables arrive."""

    def __init__(self, number, setup, context, processors, arrivals, watch):
        self._number, self._arrivals, self._processors = number, arrivals, processors
        self._clock, self._keys = Clock(), setup.keys
        self._contact = Contact(self._clock, setup.lease_s, same_clock=False)
        self.line = LightLine(context, setup)
        self._post = tree.Post(self.line.send, base=0)
        self._relay, self._watch = None, watch
        self.over = False
        watch(self, self.line._socket)

    def turn(self):
        """Read and answer; returns when it wants to be called again."""
        while (lines := self.line.receive()) or (self._relay and self._relay.up()):
            arrived_ns = time.monotonic_ns()
            for line in lines:
                if line.startswith(tree.PACKET):
                    self._relay.down(line)
                    continue
                for one in self._post.take(line) if line.startswith(tree.LETTER) else [line]:
                    self._hear(TO_AGENT.decode(one), arrived_ns)
        if self._contact.wants_beat(None):
            self.beat()
        return self._contact.due_ns()

    def _hear(self, message, arrived_ns):
        match message:
            case protocol.Echo(taken=taken):
                self._post.confirm(taken)
                missing = self._contact.learn(message)
                if missing is not None and missing > 0:
                    self.beat()
                elif missing == 0:
                    self.join()
            case protocol.Table():
                self._arrivals[self._number] = arrived_ns
            case protocol.Start():
                self._arrivals[len(self._arrivals) // 2 + self._number] = arrived_ns
            case protocol.Lead(led):
                led = {number: (key, host) for number, key, host in led}
                self._relay = Relay(led, self._keys, self._clock, self._contact, self.line.send)
                for descriptor in self._relay.hub.filenos():
                    self._watch(self, descriptor)
                self.join(self._relay.endpoints)
            case protocol.Follow(endpoint, key):
                self.line.turn(endpoint, key)
                if endpoint:
                    self._watch(self, self.line._socket)
                self._contact.answered_ns = time.monotonic_ns()
                self.beat()
                self._post.again()
            case protocol.End():
                self.over = True

    def join(self, endpoints=()):
        cores = tuple(range(self._processors))
        self.tell(protocol.Join(f"light-{self._number}", cores, os.getpid(), "light", endpoints))

    def beat(self):
        beat = self._contact.beat(0, self._post.written, self._post.taken)
        self.line.send(TO_DRIVER.encode(beat))
        if self._relay:
            self._relay.beat()

    def tell(self, message):
        self._post.write(TO_DRIVER.encode(message))


def hold(file, processors):
    """Hold the light agents whose numbers and set-ups are on standard input, until all are over."""
    with file.open("r+b") as opened:
        arrivals = memoryview(mmap.mmap(opened.fileno(), 0)).cast("q")
    processes.raise_descriptor_limit()
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 8192)
    agents, everybody = {}, []
    poller = zmq.Poller()

    def watch(agent, end):
        agents[end] = agent
        poller.register(end, zmq.POLLIN)

    for line in sys.stdin:
        number, setup = json.loads(line)
        everybody.append(LightAgent(number, Setup.decode(setup), context, processors, arrivals, watch))
    dues = [(agent.turn(), number, agent) for number, agent in enumerate(everybody)]
    heapq.heapify(dues)
    while not all(agent.over for agent in everybody):
        wait_ms = (dues[0][0] - time.monotonic_ns()) // 10**6
        for end, _ in poller.poll(min(max(0, wait_ms), 100)):
            agents[end].turn()
        while dues[0][0] <= time.monotonic_ns():
            _, number, agent = dues[0]
            heapq.heapreplace(dues, (max(agent.turn(), time.monotonic_ns() + 10**6), number, agent))
    context.destroy(200)


class Crowd:
    """So many light agents and the real driver's side."""

    def __init__(self, count, processors):
        self.count, self.processors, self.lost = count, processors, []
        self.directory = RunDirectory.create()
        self.file = self.directory.path / "arrivals"
        self.file.write_bytes(bytes(16 * count))  # first of tables, then of orders to start
        with self.file.open("r+b") as opened:
            self.arrivals = memoryview(mmap.mmap(opened.fileno(), 0)).cast("q")
        jobs = (ParallelJob(0, Program(phases=1, processes=1)),)
        hosts = tuple(Node("127.0.0.1", processors) for _ in range(count))
        workload = Workload(jobs, policies.create("gang", {}), (), nodes=hosts)
        self.holders = [
            subprocess.Popen(
                [sys.executable, "-P", __file__, "--hold", str(self.file), "--processors", str(processors)],
                env=passed_on(self.directory.marks),
                stdin=subprocess.PIPE,
                text=True,
            )
            for _ in range(HOLDERS)
        ]
        run = self.directory.run
        drive.start_elsewhere = lambda directory, setup, launcher, hosts, number: Adopted(
            self.holders[0].pid, run
        )
        self.loop = Loop()
        self.nodes = drive.Nodes(
            workload,
            "signals",
            self.directory,
            Hydra("/bin/false", "1"),
            on_message=lambda node, message: None,
            on_loss=lambda processors, why: self.lost.append(why),
        )
        begin_s = time.monotonic()
        self.nodes.start(self.loop)
        for number, holder in enumerate(self.holders):
            for node, setup in enumerate(self.nodes.setups):
                if node.bit_count() % HOLDERS == number:  # both have as many of those that lead others
                    holder.stdin.write(json.dumps([node, setup.encode()]) + "\n")
            holder.stdin.close()
        while not self.nodes.joined and time.monotonic() - begin_s < 120:
            self.listen(0.05)
        assert self.nodes.joined, self.lost
        self.join_s = time.monotonic() - begin_s

    def listen(self, seconds):
        """As the driver listens (``Driver._wait``), without jobs."""
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        while time.monotonic_ns() < end_ns:
            self.nodes.receive()
            self.loop.wait(min(end_ns, self.nodes.due_ns()))
            self.nodes.receive()
            self.nodes.check(time.monotonic_ns())

    def arrival_ms(self, plan, active):
        """The driver's time to share a decision out, and the time until the last agent has its table."""
        begin_ns = time.monotonic_ns()
        self.nodes.publish(plan, 0, begin_ns, active)
        shared_ns = time.monotonic_ns()
        return (shared_ns - begin_ns) / 1e6, self._last_ms(begin_ns, self.arrivals[: self.count])

    def _last_ms(self, begin_ns, arrivals):
        while min(arrivals) < begin_ns:
            self.listen(0.002)
            if time.monotonic_ns() - begin_ns > 30 * 10**9:
                break
        return (max(arrivals) - begin_ns) / 1e6

    def start_ms(self, session, job, active):
        """The time from a job's arrival until the last agent may let ranks begin."""
        begin_ns = time.monotonic_ns()
        plan = session.arrive(job.number, job.number * 10**9)
        self.nodes.publish(plan, 0, begin_ns, active)
        places = {rank: (p,) for rank, p in enumerate(plan.decision.placements[job.number])}
        self.nodes.begin(job.number, 0, places, ())
        return self._last_ms(begin_ns, self.arrivals[self.count :])

    def end(self):
        self.nodes.end()
        for holder in self.holders:
            holder.kill()
            holder.wait()


def measure(count, options):
    """One row of the table."""
    crowd = Crowd(count, options.processors)
    try:
        crowd.listen(2)
        thread_s, process_s, at_s = time.thread_time(), time.process_time(), time.monotonic()
        crowd.listen(options.seconds)
        spent_s = time.monotonic() - at_s
        per = 1e6 / spent_s / count
        thread_us, process_us = (time.thread_time() - thread_s) * per, (time.process_time() - process_s) * per
        processors = count * options.processors
        *jobs, whole = [Job(number, processors // 4) for number in range(12)] + [Job(12, processors)]
        session = Session(policies.create("gang", {}), Machine(processors), [*jobs, whole])
        active = {job.number: range(job.processes) for job in (*jobs, whole)}
        session.arrive(0, 0, *range(1, len(jobs) - options.decisions))
        found = []
        for number in range(len(jobs) - options.decisions, len(jobs)):
            decided_ns = time.monotonic_ns()
            plan = session.arrive(number, number * 10**9)
            decide_ms = (time.monotonic_ns() - decided_ns) / 1e6
            found.append((decide_ms, *crowd.arrival_ms(plan, active)))
            crowd.listen(1)
        start_ms = crowd.start_ms(session, whole, active)
        decide, share, last = (statistics.median(column) for column in zip(*found, strict=True))
        lost = f", {len(crowd.lost)} lost" if crowd.lost else ""
        found = (f"{value:.1f}" for value in (decide, share, last, start_ms))
        tabled(f"{count}{lost}", f"{crowd.join_s:.1f}", f"{thread_us:.0f}", f"{process_us:.0f}", *found)
    finally:
        crowd.end()


def main():
    """Measure and print."""
    nodes = {"type": int, "nargs": "*", "default": [128, 1024, 4096]}
    holder = {"type": Path, "help": "for the processes that hold agents"}
    options = parsed(__doc__, nodes=nodes, seconds=10.0, decisions=5, processors=4, hold=holder)
    resource.setrlimit(resource.RLIMIT_CPU, (400, 400))
    if options.hold:
        hold(options.hold, options.processors)
        return
    processes.raise_descriptor_limit()
    times = "decide, ms", "shared out, ms", "last table, ms", "ordered to start, ms"
    headed("nodes", "all joined, s", "driver's thread, us", "whole driver, us", *times)
    with TemporaryDirectory(prefix="ls-") as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        for count in options.nodes:
            measure(count, options)


if __name__ == "__main__":
    main()
