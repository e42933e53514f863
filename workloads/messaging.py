"""Barriers and reads over MPI messages, with one instrumented two-phase wait loop.

The barrier is the root barrier of Dusseau, Arpaci, Culler, SIGMETRICS 1996, footnote 1: each process sends
its arrival to the root, which broadcasts completion by P - 1 messages. A read is a request and a response.
Only the target process serves it: while it waits, and after each gap before its own reads.

All messages arrive in one persistent receive, so that a poll is a single MPI test.
"""

from collections.abc import Callable, Sequence
from time import perf_counter_ns, sleep, time_ns
from typing import Any

from mpi4py import MPI

from workloads import waiting_rules
from workloads.coscheduling import Coscheduling
from workloads.doorbell import Doorbell, NetworkBell, NodeBell, node_bytes
from workloads.record import Recorder, WaitRecorder
from workloads.waiting_rules import Waiting

ROOT = 0
ARRIVAL, COMPLETION, REQUEST, RESPONSE, NOTICE = range(5)

RECHECK_NS = 500_000_000
"""A sleeper looks for itself after this long. Finding a message then means that a wake-up
was lost; the record counts it."""

OVERDUE_NS = 200_000
NAP_S = 1e-4
"""An announced message that is not there after OVERDUE_NS may need its sender to continue in MPI, and the
sender may need this processor. So the rank naps between looks from then on."""


def world() -> MPI.Intracomm:
    return MPI.COMM_WORLD


def end() -> None:
    """End MPI on all ranks, so that a failure of all of them needs no abort. Collective."""
    MPI.Finalize()


def one_node(comm: MPI.Intracomm) -> bool:
    """Whether all ranks of ``comm`` share a node. Collective."""
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    whole: bool = node.Get_size() == comm.size
    node.Free()
    return bool(comm.allreduce(whole, MPI.LAND))


class Messenger:
    """One rank's end of the job's messages.

    ``comm`` may have any size, 1 included. Collective: all ranks of ``comm`` create it together and
    close it together. In between, some ranks may continue without the others (``enter``). This takes
    no message, since all ranks have made MPI's collective calls before.

    Attributes:
        rank, size: this process among those that take part, and their number.
        served: read requests answered.
        rechecks: messages found by the sleeper's own look after RECHECK_NS.
        estimate_ns: the estimate of the load imbalance that the waiting rule uses.

    Args:
        comm: the job's communicator; duplicated, so that no other message interferes.
        waiting: its numbers may differ between ranks, the rule may not.
        recorder: takes every wait.
        one_sided: whether reads are one-sided (MPI.Win) instead of request and response.
        network: use the doorbell that works between nodes, whether needed or not.
        clock: returns nanoseconds of a clock that all ranks share; by default the wall clock, as
            accurate as the nodes keep it.
        coscheduling: looks after peers that let this rank wait; by default nothing does.
    """

    def __init__(
        self,
        comm: MPI.Intracomm,
        waiting: Waiting,
        recorder: Recorder,
        *,
        one_sided: bool = False,
        network: bool = False,
        clock: Callable[[], int] = time_ns,
        coscheduling: Coscheduling | None = None,
    ) -> None:
        self._comm = comm.Dup()
        self._coscheduling = coscheduling
        self._asked = ROOT
        self._patience_ns = coscheduling.patience_ns if coscheduling else waiting_rules.FOREVER_NS
        self._place = comm.rank
        self._recorder = recorder
        self._clock = clock
        self.served = self.rechecks = 0
        self._received = [0] * comm.size
        self._one_sided = _OneSidedReads(self._comm) if one_sided else None
        self._page: MPI.Win | None = None
        self._near: frozenset[int] = frozenset()
        self._node_bell: NodeBell | None = None
        self._network_bell: NetworkBell | None = None
        if waiting.rule != waiting_rules.SPIN and comm.size > 1:  # else no rank ever sleeps
            self._make_bells(network)
        self.enter(range(comm.size), waiting)
        self._out = [memoryview(bytearray(24)).cast("q") for _ in range(5)]
        for kind, message in enumerate(self._out):
            message[0], message[1] = kind, self._place
        self._in = memoryview(bytearray(24)).cast("q")
        self._receive: Any = self._comm.Recv_init(self._in, MPI.ANY_SOURCE, 0)
        self._receive.Start()
        self._comm.Barrier()

    def _make_bells(self, network: bool) -> None:
        """Make the doorbells that the ranks may need: within each node, and between nodes. Collective."""
        node = self._comm.Split_type(MPI.COMM_TYPE_SHARED)
        assert isinstance(node, MPI.Intracomm)
        near = frozenset(node.allgather(self._place))
        if node.size > 1 and not network:
            # The first rank's part is the whole page, with room for the ranks of other nodes, too.
            size = node_bytes(self._comm.size) * self._comm.size if node.rank == 0 else 0
            self._page = MPI.Win.Allocate_shared(size, 1, comm=node)
            self._page.Lock_all()
            first, _ = self._page.Shared_query(0)
            self._node_bell = NodeBell(first.address, self._place, self._comm.size, self._page.Sync)
            self._near = near
        node.Free()
        if not self._comm.allreduce(len(self._near) == self._comm.size, MPI.LAND):
            self._network_bell = NetworkBell(self._place, self._comm.size, self._comm.allgather)

    def enter(self, places: Sequence[int], waiting: Waiting) -> None:
        """Continue with only these ranks of the communicator, in this order.

        This rank is one of them. All of them call this before they send anything, and while no message is
        on its way. They wait by the rule ``waiting``, and forget what they have learnt. The other ranks
        take no part until ``close``, or until they enter together with all of these.
        """
        self._places = tuple(places)
        self.rank = self._places.index(self._place)
        self.size = len(self._places)
        self._waiting = waiting
        self._bell: Doorbell | None = None
        if self.size > 1:
            self._bell = self._node_bell if self._near.issuperset(self._places) else self._network_bell
        self.estimate_ns = waiting_rules.UNKNOWN_NS
        self._sample = waiting_rules.new_sample(self.rank)
        self._last_wait_ns = waiting_rules.UNKNOWN_NS  # at a barrier to learn from
        # At the root: the smallest and the greatest report of the arrivals at this barrier.
        self._min_ns = waiting_rules.FOREVER_NS
        self._greatest_ns = waiting_rules.UNKNOWN_NS
        self._learned_ns = waiting_rules.UNKNOWN_NS  # at the root: estimate that the next completion carries
        self._due = [0, 0, 0, 0, 0]  # messages of each kind that came and were not yet waited for

    def barrier(self, *, learning: bool) -> None:
        """Wait until all have arrived; ``learning``: it ends a compute phase, and rules learn from it.

        A single process waits for 0 ns, and there is no load imbalance to learn.
        """
        if self.size == 1:
            self._recorder.barriers.add(0, 0)
            return
        limit_ns = waiting_rules.barrier_limit(self._waiting, self.estimate_ns)
        report_ns = waiting_rules.report(self._waiting, self._last_wait_ns, self._clock())
        if self.rank != ROOT:
            self._send(self._places[ROOT], ARRIVAL, report_ns)
            waited_ns = self._wait(COMPLETION, 1, limit_ns, self._recorder.barriers)
        else:
            self._note(report_ns)
            waited_ns = self._wait(ARRIVAL, self.size - 1, limit_ns, self._recorder.barriers)
            if self._waiting.rule == waiting_rules.GLOBAL_ADAPTIVE:
                self.estimate_ns = self._learned_ns
            for place in self._places[1:]:
                self._send(place, COMPLETION, self.estimate_ns)
        if learning:
            self._learn(waited_ns)
        self._min_ns = waiting_rules.FOREVER_NS
        self._greatest_ns = waiting_rules.UNKNOWN_NS

    def _learn(self, waited_ns: int) -> None:
        """Let the rule learn from a barrier; by the global one (section 6.3) the root does, for all."""
        if self._waiting.rule == waiting_rules.LOCAL_ADAPTIVE:
            self.estimate_ns = waiting_rules.learn(self._sample, waited_ns)
        elif self._waiting.rule == waiting_rules.GLOBAL_ADAPTIVE and self.rank == ROOT:
            seen_ns = waiting_rules.observed(self._waiting, self._min_ns, self._greatest_ns)
            if seen_ns >= 0:
                self._learned_ns = waiting_rules.learn(self._sample, seen_ns)
        self._last_wait_ns = waited_ns

    def _note(self, report_ns: int) -> None:
        self._min_ns = min(self._min_ns, report_ns)
        self._greatest_ns = max(self._greatest_ns, report_ns)

    def read(self, target: int) -> None:
        """Read a word of ``target``, if it is another rank; on return the answer has arrived."""
        if target == self.rank:
            return
        if self._one_sided:
            # No message announces the completion, so the rank cannot sleep: it spins.
            begin = perf_counter_ns()
            request = self._one_sided.get(self._places[target])
            while not request.Test():
                self.poll()
            self._recorder.reads.add(perf_counter_ns() - begin, 0)
            return
        self._asked = target
        self._send(self._places[target], REQUEST, 0)
        self._wait(RESPONSE, 1, waiting_rules.read_limit(self._waiting), self._recorder.reads)

    def notify(self, target: int) -> None:
        self._send(self._places[target], NOTICE, 0)

    @property
    def noticed(self) -> bool:
        return self._due[NOTICE] > 0

    def received(self) -> list[int]:
        return [self._received[place] for place in self._places]

    def poll(self) -> None:
        while self._receive.Test():
            self._handle()

    def _send(self, place: int, kind: int, value: int) -> None:
        message = self._out[kind]
        message[2] = value
        self._comm.Send(message, place, 0)
        if self._bell:
            self._bell.ring(place)

    def _handle(self) -> int:
        """Take in the message that has arrived; serve it if it is a request. Returns its kind."""
        message = self._in
        kind, source, value = message
        self._received[source] += 1
        if kind == COMPLETION:
            if self._waiting.rule == waiting_rules.GLOBAL_ADAPTIVE:
                self.estimate_ns = value
        elif kind == ARRIVAL:
            self._note(value)
        self._receive.Start()
        if kind == REQUEST:
            self._send(source, RESPONSE, 0)
            self.served += 1
        else:
            self._due[kind] += 1
        return kind

    def _wait(self, kind: int, count: int, limit_ns: int, waits: WaitRecorder) -> int:
        """Wait for ``count`` messages of ``kind``: serve, spin up to the limit, block; returns ns waited."""
        due = self._due
        test = self._receive.Test
        blocks = 0
        begin = perf_counter_ns()
        end = begin + limit_ns
        deadline = min(end, begin + self._patience_ns)
        while due[kind] < count:
            if test():
                self._handle()
            elif (now := perf_counter_ns()) >= end:
                blocks += self._block()
                self._handle()
            elif now >= deadline:
                deadline = min(end, self._look(kind) + self._patience_ns)
        due[kind] = 0
        waited_ns = perf_counter_ns() - begin
        waits.add(waited_ns, blocks)
        return waited_ns

    def _look(self, kind: int) -> int:
        """Look after the ranks that are to send a message of ``kind``; returns the time."""
        assert self._coscheduling
        partner = self._asked if kind == RESPONSE else ROOT
        self._coscheduling.look(self._places[1:] if kind == ARRIVAL else (self._places[partner],))
        return perf_counter_ns()

    def _block(self) -> int:
        """Sleep until a message has arrived; returns how often it slept (0 if one was there at once)."""
        bell = self._bell
        test = self._receive.Test
        assert bell
        blocks = 0
        begin = perf_counter_ns()
        while True:
            rung = True
            armed = bell.arm(self._received)
            arrived = test()
            if armed and not arrived:
                rung = bell.sleep(RECHECK_NS)
                blocks += 1
                arrived = test()
                begin = perf_counter_ns()
            elif not arrived and perf_counter_ns() - begin > OVERDUE_NS:
                sleep(NAP_S)
                blocks += 1
            bell.disarm()
            if arrived:
                self.rechecks += not rung
                return blocks

    def close(self) -> None:
        """Free its MPI resources. Collective."""
        self._receive.Cancel()
        self._receive.Wait()
        self._receive.Free()
        for bell in (self._node_bell, self._network_bell):
            if bell:
                bell.close()
        if self._page:
            self._page.Unlock_all()
            self._page.Free()
        if self._one_sided:
            self._one_sided.close()
        self._comm.Free()


class _OneSidedReads:
    """A window with one word per rank, which other ranks read without its help."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._window = MPI.Win.Allocate(8, 8, comm=comm)
        self._window.Lock_all()
        self._word = memoryview(bytearray(8)).cast("q")

    def get(self, target: int) -> Any:
        return self._window.Rget(self._word, target)

    def close(self) -> None:
        self._window.Unlock_all()
        self._window.Free()
