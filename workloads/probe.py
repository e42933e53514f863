"""Measures the constants of this host that waiting rules and simulator use, by our own messages.

``mpiexec -n 3 python -P -m mpi4py -m workloads.probe --processors A,B`` prints one JSON document with lists
of samples in nanoseconds:

- ``latency_ns``: one-way message latency between two processors, both ends spinning;
- ``remote_wakeup_ns``: extra time of a read whose target is blocked on another processor that a rival keeps
  busy: wake-up, switch and return from the block. A waiting process weighs its spinning against this
  context-switch cost;
- ``local_switch_ns``: time to block and let the other process of the same processor run until its answer,
  beyond the messages: a switch without a wake-up across processors;
- ``local_switch_pair_ns``: of each single read, the mean of its two hand-offs: how much switches differ;
- ``yield_ns``: time from a call of sched_yield in one process of a processor to its return in the other one;
- ``switch_after_idle_ns T``: of each single hand-off, its time if the process has not run for T us;
- ``idle_wakeup_ns``: extra time of a read whose target is blocked on an idle processor;
- ``send_ns``, ``receive_ns``: CPU time to send a message, and to take one in;
- ``wake_ns``: to wake the receiver of a message, if it sleeps on a processor that a rival keeps busy;
- ``send_after_idle_ns T``: of each single read, the extra time if the reader has computed for T us before;
- ``serve_ns``: to answer a read, beyond receiving it and sending the answer;
- ``poll_ns``: to look for a message when none is there;
- ``overrun_ns``: by how much longer than asked each single computation takes, with what a program does after
  it before it communicates;
- ``os_noise_length_ns``: lengths of interruptions of processors that only compute (``workloads.os_noise``);
- ``tick_delay_ns``: lengths of the interrupts of the clock tick, at whose ends time slices end;
- ``os_noise_interval_ns``: mean time from one interruption to the next, one sample a processor; at least the
  time watched;
- ``memory_step_ns``: a step through the working set (one sample, 0 without ``--working-set-bytes``);
- ``reload_ns``: with a working set, extra time of a walk through all of it after another process has walked
  through another one on the same processor, while as much happens on the other one;
- ``migration_ns``: with a working set, extra time of a walk after a move to the other processor.

With ``--between`` and its second rank on another host, only ``latency_ns`` and ``idle_wakeup_ns`` are
measured, between the two hosts, each rank on the first core that it may use.

With a single processor the hand-off also stands for the switch, and all constants that take two processors
are 0.

A virtual machine changes within a second: all but interruptions and reloads are measured in ROUNDS, and a
difference is one of the same round. So the samples of a quantity are in the order of time, and spread over
the probe.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle, islice, pairwise
from time import perf_counter_ns, thread_time_ns
from typing import Any, TypeVar

from workloads import os_noise
from workloads.compute import Compute, measured_step_ns
from workloads.messaging import REQUEST, RESPONSE, Messenger, end, world
from workloads.record import Recorder
from workloads.waiting_rules import FIXED, FOREVER_NS, Waiting

RANKS = 3
SERVER, READER, RIVAL = range(RANKS)

SPINNING = Waiting(FIXED, 0, 0, FOREVER_NS, 0)
BLOCKING = Waiting(FIXED, 0, 0, 0, 0)

BATCH = 20  # calls whose mean is a sample
APART = 50  # batches of yields, some milliseconds, by which two processes begin apart at most
STEP_NS = 8000  # a short computation, like those before reads
FALL_ASLEEP_NS = 50_000  # pause before each read that is to find its server asleep

IDLE_TIMES_US = (500, 2000, 5000, 10_000)
"""How long a process has not run, or not communicated, at which its next step is measured."""

ROUNDS = 10  # how often to come back to each quantity
WATCH_NS = 1_000_000_000  # how long to watch for interruptions
WALK_NS = 1_000_000  # how long the rival walks before it looks for a message
LOOK_S = 0.005  # how often a rival without work looks for some

ACROSS = (
    *("latency", "idle_wakeup", "wake", "send", "receive", "serve", "poll"),
    *("os_noise_length", "os_noise_interval", "tick_delay"),
)
"""Quantities that take two processors."""

Samples = dict[str, list[float]]


class TimedMessenger(Messenger):
    """Records ns of each send and of the handling of each kind, two readings of the clock included."""

    def __init__(self, comm: Any) -> None:
        super().__init__(comm, SPINNING, Recorder())
        self.sending: list[int] = []
        self.handling: list[list[int]] = [[] for _ in range(4)]

    def _send(self, place: int, kind: int, value: int) -> None:
        begin = perf_counter_ns()
        super()._send(place, kind, value)
        self.sending.append(perf_counter_ns() - begin)

    def _handle(self) -> int:
        begin = perf_counter_ns()
        kind = super()._handle()
        self.handling[kind].append(perf_counter_ns() - begin)
        return kind


M = TypeVar("M", bound=Messenger)


@contextmanager
def _talking(messenger: M) -> Iterator[M]:
    """A context for messages, at whose end both wait for each other."""
    yield messenger
    messenger.barrier(learning=False)
    messenger.close()


class Probe:
    """Reads of a server by a reader, which gets the samples; both call all methods, the rival ``compete``.

    ``samples`` says how many of each quantity a round has.
    """

    def __init__(self, world: Any, pair: Any, samples: int) -> None:
        self._world = world
        self._pair = pair
        self._reads = pair.rank == READER
        self.samples = samples

    def round_trips_ns(
        self,
        places: tuple[int, int],
        *,
        server: Waiting,
        reader: Waiting,
        pauses_ns: Sequence[int] = (0,),
        rival: bool = False,
        count: int = 0,
    ) -> list[int]:
        """Round-trip times of ``count`` reads, by default BATCH for each sample, in nanoseconds.

        Server and reader are on ``places``. The reader computes before each read, for each of ``pauses_ns``
        in turn, which the times exclude. A rival may keep the server's processor busy. The server gets an
        empty list.
        """
        os.sched_setaffinity(0, {places[self._pair.rank]})
        if rival:
            self._tell_rival(places[SERVER])
        times_ns = []
        with _talking(Messenger(self._pair, (server, reader)[self._pair.rank], Recorder())) as messenger:
            if self._reads:
                times_ns = self._read(messenger, count or self.samples * BATCH, pauses_ns)
        if rival:
            self._tell_rival(None)
        return times_ns

    def yields_ns(self, place: int) -> list[float]:
        """The switch from one process on ``place`` to the other by sched_yield, which both call in turn.

        One of the two begins and ends before the other: the samples are from the middle.
        """
        os.sched_setaffinity(0, {place})
        self._pair.barrier()
        times_ns = []
        for _ in range(self.samples + 2 * APART):
            begin = perf_counter_ns()
            for _ in range(BATCH):
                os.sched_yield()
            times_ns.append((perf_counter_ns() - begin) / BATCH / 2)
        self._pair.barrier()
        return times_ns[APART:-APART]

    def overheads_ns(self, places: tuple[int, int]) -> Samples:
        """CPU time of the parts of a read with both ends spinning; empty on the server."""
        os.sched_setaffinity(0, {places[self._pair.rank]})
        polls = []
        with _talking(TimedMessenger(self._pair)) as messenger:
            if self._reads:
                self._read(messenger, self.samples * BATCH)
                for _ in range(self.samples):
                    begin = perf_counter_ns()
                    for _ in range(BATCH):
                        messenger.poll()
                    polls.append((perf_counter_ns() - begin) / BATCH)
        served = self._pair.bcast(_batches(messenger.handling[REQUEST]), SERVER)
        to_sleeper = self._sends_to_sleeper_ns(places[SERVER])
        if not self._reads:
            return {}
        sends_ns = _batches(messenger.sending)
        receipts_ns = _batches(messenger.handling[RESPONSE])
        both_ns = statistics.median(sends_ns) + statistics.median(receipts_ns)
        serves = [max(0.0, time_ns - both_ns) for time_ns in served]
        rings = [time_ns - statistics.median(sends_ns) for time_ns in to_sleeper]
        samples = {"send_ns": sends_ns, "wake_ns": rings, "receive_ns": receipts_ns, "serve_ns": serves}
        return samples | {"poll_ns": polls}

    def _sends_to_sleeper_ns(self, place: int) -> list[float]:
        """CPU time of a send to a server that sleeps on ``place``, which the rival keeps busy."""
        if not self._reads:
            with _talking(Messenger(self._pair, BLOCKING, Recorder())):
                return []
        self._tell_rival(place)
        with _talking(TimedMessenger(self._pair)) as messenger:
            self._read(messenger, self.samples * BATCH, [FALL_ASLEEP_NS])
        self._tell_rival(None)
        return _batches(messenger.sending)

    def overruns_ns(self, places: tuple[int, int], server: Waiting) -> list[float]:
        """By how much longer than STEP_NS each step of a program takes without messages; reader only."""
        os.sched_setaffinity(0, {places[self._pair.rank]})
        compute = Compute()
        times_ns = []
        with _talking(Messenger(self._pair, server, Recorder())) as messenger:
            mark_ns = thread_time_ns()
            for _ in range(self.samples * BATCH + 1 if self._reads else 0):
                times_ns.append(perf_counter_ns())
                compute(STEP_NS, mark_ns)
                messenger.poll()
                messenger.read(messenger.rank)
                mark_ns = thread_time_ns()
        return [float(end_ns - begin_ns - STEP_NS) for begin_ns, end_ns in pairwise(times_ns)]

    def os_noise_ns(self, places: tuple[int, int]) -> Samples:
        """The interruptions and clock ticks of ``places``, watched together while the rival sleeps."""
        os.sched_setaffinity(0, {places[self._pair.rank]})
        self._tell_rival(WATCH_NS / 1e9)
        self._pair.barrier()
        jumps = os_noise.watch(WATCH_NS)
        lengths = [jump.length_ns for jump in jumps if jump.switched]
        both = self._pair.allgather((lengths, os_noise.ticks_ns(jumps, WATCH_NS, os_noise.tick_ns())))
        return {
            "os_noise_length_ns": [float(length_ns) for lengths, _ in both for length_ns in lengths] or [0.0],
            "os_noise_interval_ns": [WATCH_NS / max(1, len(lengths)) for lengths, _ in both],
            "tick_delay_ns": [float(late_ns) for _, ticks in both for late_ns in ticks] or [0.0],
        }

    def reloads_ns(self, places: tuple[int, int], working_set_bytes: int, memory_step_ns: float) -> Samples:
        """Extra time of a walk through the working set after the other process's walk, and after a move.

        ``reload_ns``: both processes are on the first place. Processors may share a cache, so the rival
        walks on the second one, if it is another: through one working set while the reader walks alone,
        then through two.
        ``migration_ns``: the reader moves from one place to the other, and no other process walks.
        """
        here, there = places
        os.sched_setaffinity(0, {here})
        walk = Compute(working_set_bytes, memory_step_ns)
        messenger = Messenger(self._pair, BLOCKING, Recorder())
        samples = ROUNDS * self.samples

        def took_ns() -> int:
            walk(round(memory_step_ns * walk.steps))
            return walk.ended_ns - walk.began_ns

        def beside(sets: int) -> None:
            if there != here:
                self._tell_rival((there, sets * working_set_bytes, memory_step_ns) if sets else None)

        # The server sleeps at the first barrier until the reader comes, too; then they take turns.
        beside(1)
        alone = [took_ns() for _ in range(samples) if self._reads]
        beside(2)
        turns = []
        for _ in range(samples + 1):
            messenger.barrier(learning=False)
            turns.append(took_ns())
        messenger.close()
        beside(0)
        if not self._reads:
            return {}
        moves = []
        for turn in range(samples if here != there else 0):
            os.sched_setaffinity(0, {places[turn % 2 - 1]})
            moves.append(took_ns())
        usual_ns = statistics.median(alone)
        reloads_ns = {"reload_ns": [time_ns - usual_ns for time_ns in turns[1:]]}
        return reloads_ns | {"migration_ns": [time_ns - usual_ns for time_ns in moves]}

    def _tell_rival(self, wish: Any) -> None:
        """Let the rival act on a wish (``compete``), if this is the reader."""
        if self._reads:
            self._world.send(wish, RIVAL)
            self._world.recv(source=RIVAL)

    def _read(self, messenger: Messenger, count: int, pauses_ns: Sequence[int] = (0,)) -> list[int]:
        pause = Compute()
        times_ns = []
        for pause_ns in islice(cycle(pauses_ns), count):
            pause(pause_ns)
            begin = perf_counter_ns()
            messenger.read(SERVER)
            times_ns.append(perf_counter_ns() - begin)
        return times_ns


def compete(comm: Any) -> None:
    """The rival's part: answer each message of the reader, and act on it.

    A whole number is a processor to keep busy until the next message; with the bytes of a working set and the
    time of a step, one on which to walk through it. A float is a time in seconds to sleep, as the rival does
    without work; None is nothing, a text the end.
    """
    while not isinstance(wish := _sleep_until_told(comm), str):
        place, *working_set = wish if isinstance(wish, tuple) else (wish,)
        walk = Compute(*working_set)
        comm.send(None, READER)
        if isinstance(place, float):
            time.sleep(place)
        elif place is not None:
            os.sched_setaffinity(0, {place})
            while not comm.iprobe(source=READER):
                if working_set:
                    walk(WALK_NS)


def _sleep_until_told(comm: Any) -> Any:
    while not comm.iprobe(source=READER):
        time.sleep(LOOK_S)
    return comm.recv(source=READER)


def _batches(times_ns: list[int]) -> list[float]:
    return [statistics.fmean(times_ns[at : at + BATCH]) for at in range(0, len(times_ns) - BATCH + 1, BATCH)]


def measure(probe: Probe, a: int, b: int) -> Samples:
    """Constants of processors ``a`` and ``b`` in one round: all but OS noise, ``memory_step_ns``, reloads."""
    each = probe.round_trips_ns((a, a), server=BLOCKING, reader=BLOCKING)
    handoffs_ns = _batches(each)
    each_ns = [time_ns / 2 for time_ns in each]
    yields_ns = probe.yields_ns(a)
    if a == b:
        switch_ns = [time_ns / 2 for time_ns in handoffs_ns]
        none_ns = {f"{quantity}_ns": [0.0] for quantity in ACROSS}
        samples = {
            "remote_wakeup_ns": switch_ns,
            "local_switch_ns": switch_ns,
            "local_switch_pair_ns": each_ns,
        }
        samples |= {"yield_ns": yields_ns, "overrun_ns": probe.overruns_ns((a, a), BLOCKING)}
        return samples | none_ns | after_idle(probe, a, b, statistics.median(switch_ns or [0.0]), 0.0)
    spun = _batches(probe.round_trips_ns((a, b), server=SPINNING, reader=SPINNING))
    reads = partial(
        probe.round_trips_ns, (a, b), server=BLOCKING, reader=SPINNING, pauses_ns=[FALL_ASLEEP_NS]
    )
    woken, switched = (_batches(reads(rival=rival)) for rival in (False, True))
    base_ns = statistics.median(spun or [0.0])
    switch_ns = [(time_ns - base_ns) / 2 for time_ns in handoffs_ns]
    return {
        "latency_ns": [time_ns / 2 for time_ns in spun],
        "remote_wakeup_ns": [time_ns - base_ns for time_ns in switched],
        "local_switch_ns": switch_ns,
        "local_switch_pair_ns": [time_ns - base_ns / 2 for time_ns in each_ns],
        "yield_ns": yields_ns,
        "idle_wakeup_ns": [time_ns - base_ns for time_ns in woken],
        **after_idle(probe, a, b, statistics.median(switch_ns or [0.0]), base_ns),
        **probe.overheads_ns((a, b)),
        "overrun_ns": probe.overruns_ns((a, b), SPINNING),
    }


def after_idle(probe: Probe, a: int, b: int, switch_ns: float, read_ns: float) -> Samples:
    """Costs of the reader's send, and of the hand-off to the server, after each of IDLE_TIMES_US.

    Caches, and on a virtual machine the host, forget a process that does something else for a while.
    ``switch_ns`` and ``read_ns`` are a hand-off and a read of two spinning ends without any rest. On a single
    processor both costs count as the hand-off's.
    """
    times = len(IDLE_TIMES_US)
    pauses_ns = [idle_us * 1000 for idle_us in IDLE_TIMES_US]
    reads = partial(probe.round_trips_ns, pauses_ns=pauses_ns, count=probe.samples * times)
    all_spun = reads((a, b), server=SPINNING, reader=SPINNING) if a != b else []
    all_handed = reads((a, a), server=BLOCKING, reader=BLOCKING)
    samples: Samples = {}
    for number, idle_us in enumerate(IDLE_TIMES_US):
        spins_ns = all_spun[number::times]
        handoffs_ns = all_handed[number::times]
        # The reader has not rested: so the way back to it costs what it usually does.
        usual_ns = switch_ns + statistics.median(spins_ns or [0])
        samples[f"switch_after_idle_ns {idle_us}"] = [time_ns - usual_ns for time_ns in handoffs_ns]
        samples[f"send_after_idle_ns {idle_us}"] = [time_ns - read_ns for time_ns in spins_ns] or [0.0]
    return samples


def measure_between(probe: Probe) -> Samples:
    """The constants of messages between two hosts in one round."""
    own = min(os.sched_getaffinity(0))
    spun = _batches(probe.round_trips_ns((own, own), server=SPINNING, reader=SPINNING))
    woken = _batches(
        probe.round_trips_ns((own, own), server=BLOCKING, reader=SPINNING, pauses_ns=[FALL_ASLEEP_NS])
    )
    base_ns = statistics.median(spun or [0.0])
    return {
        "latency_ns": [time_ns / 2 for time_ns in spun],
        "idle_wakeup_ns": [time_ns - base_ns for time_ns in woken],
    }


def main(arguments: list[str]) -> None:
    """Measure and print. Collective over RANKS ranks."""
    parser = argparse.ArgumentParser(prog="python -m workloads.probe", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--processors", help="ids of one or two processors: A,B")
    what.add_argument("--between", action="store_true", help="the second rank is on another host")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--working-set-bytes", type=int, default=0)
    options = parser.parse_args(arguments)
    comm = world()
    if (size := comm.size) != RANKS:
        end()  # MPICH would leave its shared memory behind after an abort
        raise SystemExit(f"workloads.probe wants {RANKS} ranks and has {size}")
    pair = comm.Split(comm.rank == RIVAL)
    if comm.rank == RIVAL:
        compete(comm)
        return
    probe = Probe(comm, pair, max(1, options.samples // ROUNDS))
    result = (
        _rounds(partial(measure_between, probe)) if options.between else _measure_here(probe, pair, options)
    )
    if comm.rank == READER:
        comm.send("end", RIVAL)
        sys.stdout.write(json.dumps(result) + "\n")


def _measure_here(probe: Probe, pair: Any, options: argparse.Namespace) -> Samples:
    a, *others = (int(processor) for processor in options.processors.split(","))
    places = a, others[-1] if others else a
    samples = _rounds(partial(measure, probe, *places))
    if others:
        samples |= probe.os_noise_ns(places)
    size = options.working_set_bytes
    memory_step_ns = pair.bcast(measured_step_ns(size), READER)
    if size:
        samples |= probe.reloads_ns(places, size, memory_step_ns)
    return samples | {"memory_step_ns": [memory_step_ns]}


def _rounds(measured: Callable[[], Samples]) -> Samples:
    """The samples of ROUNDS rounds, in the order of time."""
    by_quantity: Samples = defaultdict(list)
    for _ in range(ROUNDS):
        for quantity, samples in measured().items():
            by_quantity[quantity] += samples
    return by_quantity


if __name__ == "__main__":
    main(sys.argv[1:])
