"""The driver's side of a run on many nodes, with light agents: what beats and tables cost it.

    python -P tests/benchmarks/light_agents.py [--nodes 128 1024 4096] [--seconds 10]

The driver's side is the product's (``Nodes``, ``Hub``, encryption, event loop). The light agents follow the
protocol with the product's ``Contact`` and ``Clock``: they join after sixteen exchanges, beat, and take
tables; they have no ranks, no guardian and no processes of their own. Two processes hold them all, on this
machine, and speak to the driver by TCP on its loopback: the figures have no network.

*Last table* is the time from just before the driver shares out a decision that changes all nodes' tables
until a process has read the table of the last of its agents, before it decodes that: two processes read all
tables here. *Parts* are the CPU times of the driver and of these processes meanwhile, with ZeroMQ's
threads. *Of half the nodes* is the same time for a decision that changes the tables of the others only.
*Ordered to start* is the time from the arrival of a job with a rank on every processor until the last agent
has read the order to let its ranks begin; those of a real job would have been started before.
"""

import collections
import heapq
import json
import mmap
import os
import resource
import selectors
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import zmq

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled

from coordinator import policies
from coordinator.decide.session import Session
from coordinator.drive import agents
from coordinator.drive import nodes as drive
from coordinator.drive.agents import AgentLaunch
from coordinator.host import processes
from coordinator.host.clock import Clock
from coordinator.host.environment import forwarded
from coordinator.host.launchers import Hydra
from coordinator.host.loop import Loop
from coordinator.host.rundir import RunDirectory
from coordinator.node.contact import Contact
from coordinator.view import Job, Machine
from coordinator.wire import protocol, zmq_transport
from coordinator.wire.agent_config import Setup
from coordinator.wire.protocol import TO_AGENT, TO_DRIVER
from coordinator.workload import Node, ParallelJob, Workload
from workloads.program import Program

HOLDERS = 2
"""Processes that hold light agents."""


class LightAgent:
    """Follows the protocol, and writes down when tables arrive.

    It decodes a table when nothing else is to be read, since agents on separate hosts do not wait for others.
    """

    unread: ClassVar = collections.deque()
    over = 0

    def __init__(self, number, setup, processors, arrivals):
        self._number = number
        self._arrivals = arrivals
        self._processors = processors
        self._contact = Contact(Clock(), setup.lease_s, same_clock=False)
        self.line = zmq_transport.Line(setup.endpoint, setup.driver_key, setup.keys)

    def turn(self):
        """Read and answer; returns when it wants to be called again."""
        if self._contact.wants_beat(None):
            self.beat()
        while lines := self.line.receive():
            arrived_ns = time.monotonic_ns()
            for line in lines:
                if line.startswith(b"T"):
                    self._arrivals[self._number] = arrived_ns
                    self.unread.append((self, line))
                else:
                    self.hear(TO_AGENT.decode(line), arrived_ns)
        return self._contact.due_ns()

    def hear(self, message, arrived_ns):
        match message:
            case protocol.Echo():
                missing = self._contact.learn(message)
                if missing is not None and missing > 0:
                    self.beat()
                elif missing == 0:
                    self.join()
            case protocol.Start():
                self._arrivals[len(self._arrivals) // 2 + self._number] = arrived_ns
            case protocol.End():
                LightAgent.over += 1

    def join(self):
        cores = tuple(range(self._processors))
        self.tell(protocol.Join(f"light-{self._number}", cores, os.getpid(), "light"))

    def beat(self):
        self.tell(self._contact.beat(0))

    def tell(self, message):
        self.line.send(TO_DRIVER.encode(message))


def hold(file, processors):
    """Hold the light agents whose numbers and set-ups are on standard input, until all are over."""
    with file.open("r+b") as opened:
        arrivals = memoryview(mmap.mmap(opened.fileno(), 0)).cast("q")
    processes.raise_descriptor_limit()
    context = zmq.Context()  # for all lines here: those of real agents have one each
    context.set(zmq.MAX_SOCKETS, 8192)
    zmq_transport._context = lambda: context
    everybody = []
    poller = selectors.EpollSelector()
    for line in sys.stdin:
        number, setup = json.loads(line)
        everybody.append(LightAgent(number, Setup.decode(setup), processors, arrivals))
        poller.register(everybody[-1].line, selectors.EVENT_READ, everybody[-1])
    dues = [(agent.turn(), number, agent) for number, agent in enumerate(everybody)]
    heapq.heapify(dues)
    while LightAgent.over < len(everybody):
        wait_s = (dues[0][0] - time.monotonic_ns()) / 1e9
        ready = poller.select(0 if LightAgent.unread else min(max(0.0, wait_s), 0.1))
        for key, _ in ready:
            key.data.turn()
        if LightAgent.unread and not ready:
            agent, table = LightAgent.unread.popleft()
            agent.hear(TO_AGENT.decode(table), 0)
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
                env=forwarded(self.directory.marks),
                stdin=subprocess.PIPE,
                text=True,
            )
            for _ in range(HOLDERS)
        ]
        agents.start_elsewhere = lambda directory, setup, launcher, hosts, numbers: AgentLaunch(
            directory, numbers, self.holders[0]
        )
        self.loop = Loop()
        self.nodes = drive.Nodes(
            workload,
            "signals",
            self.directory,
            Hydra("/bin/false", "1"),
            on_message=lambda node, message: None,
            on_loss=lambda processors, reason: self.lost.append(reason),
        )
        begin_s = time.monotonic()
        self.nodes.start(self.loop)
        for number, holder in enumerate(self.holders):
            for node, setup in enumerate(self.nodes.setups):
                if node % HOLDERS == number:
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
        """The driver's time to share a decision out, and the time until the last agent has its table.

        Agents whose tables do not change get none; ``self.told`` says how many do.
        """
        before = [node.table for node in self.nodes._nodes]
        begin_ns, spent_s = time.monotonic_ns(), self.spent_s()
        self.nodes.publish(plan, 0, 0, active)
        shared_ns = time.monotonic_ns()
        told = [number for number, node in enumerate(self.nodes._nodes) if node.table is not before[number]]
        self.told = len(told)
        last_ms = self._last_ms(begin_ns, told)
        spent_us = ((now_s - s) * 1e6 / self.count for s, now_s in zip(spent_s, self.spent_s(), strict=True))
        return (shared_ns - begin_ns) / 1e6, *spent_us, last_ms

    def spent_s(self):
        """CPU time of the driver and of the holders, until now."""
        clocks = ((~holder.pid << 3) | 2 for holder in self.holders)  # clock_getcpuclockid(3)
        return time.process_time(), sum(map(time.clock_gettime, clocks))

    def _last_ms(self, begin_ns, places):
        while (last_ns := min(self.arrivals[place] for place in places)) < begin_ns:
            self.listen(0.002)
            assert time.monotonic_ns() - begin_ns < 30 * 10**9, (last_ns, self.lost)
        return (max(self.arrivals[place] for place in places) - begin_ns) / 1e6

    def start_ms(self, session, job, at_ns, active):
        """The time from a job's arrival until the last agent may let ranks begin."""
        begin_ns = time.monotonic_ns()
        plan = session.arrive(job.number).decide(at_ns)
        self.nodes.publish(plan, 0, 0, active)
        places = {rank: (p,) for rank, p in enumerate(plan.decision.placements[job.number])}
        self.nodes.begin(job.number, 0, places, ())
        return self._last_ms(begin_ns, range(self.count, 2 * self.count))

    def end(self):
        self.nodes.end()
        for holder in self.holders:
            holder.kill()
            holder.wait()


def measure(count, options):
    crowd = Crowd(count, options.processors)
    try:
        crowd.listen(2)
        thread_s, process_s, at_s = time.thread_time(), time.process_time(), time.monotonic()
        crowd.listen(options.seconds)
        spent_s = time.monotonic() - at_s
        per = 1e6 / spent_s / count
        thread_us, process_us = (time.thread_time() - thread_s) * per, (time.process_time() - process_s) * per
        processors = count * options.processors
        # Whole jobs come and go: two or three slots everywhere. The second half fills the slot of the first.
        sizes = [processors] * (options.decisions // 2 + 2) + [processors // 2] * 2 + [processors]
        jobs = [Job(number, size) for number, size in enumerate(sizes)]
        session = Session(policies.create("gang", {}), Machine(processors), jobs)
        active = {job.number: range(job.processes) for job in jobs}
        session.arrive(0, 1).decide(0)
        comes = [(session.arrive, job.number) for job in jobs[2:-1]]
        goes = [(session.depart, number) for number in range(options.decisions // 2)]
        events = [event for pair in zip(comes, goes, strict=False) for event in pair] + comes[len(goes) :]
        found = []
        for second, (tell, number) in enumerate(events, start=1):
            decided_ns = time.monotonic_ns()
            plan = tell(number).decide(second * 10**9)
            decide_ms = (time.monotonic_ns() - decided_ns) / 1e6
            found.append((decide_ms, *crowd.arrival_ms(plan, active)))
            assert crowd.told == (count // 2 if second == len(events) else count), crowd.told
            crowd.listen(1)
        start_ms = crowd.start_ms(session, jobs[-1], (len(events) + 1) * 10**9, active)
        half_ms = found.pop()[-1]
        columns = [statistics.median(column) for column in zip(*found, strict=True)]
        lost = f", {len(crowd.lost)} lost" if crowd.lost else ""
        found = (f"{value:.1f}" for value in (*columns, half_ms, start_ms))
        tabled(f"{count}{lost}", f"{crowd.join_s:.1f}", f"{thread_us:.0f}", f"{process_us:.0f}", *found)
    finally:
        crowd.end()


def main():
    nodes = {"type": int, "nargs": "*", "default": [128, 1024, 4096]}
    holder = {"type": Path, "help": "for the processes that hold agents"}
    options = parsed(__doc__, nodes=nodes, seconds=10.0, decisions=5, processors=4, hold=holder)
    resource.setrlimit(resource.RLIMIT_CPU, (400, 400))
    if options.hold:
        hold(options.hold, options.processors)
        return
    processes.raise_descriptor_limit()
    spent = "driver's part, us per node", "agents' part, us per node"
    last = "last table, ms", "of half the nodes, ms", "ordered to start, ms"
    times = "decide, ms", "shared out, ms", *spent, *last
    headed("nodes", "all joined, s", "driver's thread, us", "whole driver, us", *times)
    with TemporaryDirectory(prefix="ls-") as runtime:
        os.environ["XDG_RUNTIME_DIR"] = runtime
        for count in options.nodes:
            measure(count, options)


if __name__ == "__main__":
    main()
