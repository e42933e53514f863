"""Constants of this host that the waiting rules go by, measured with the messages they govern.

``mpiexec -n 3 python -m mpi4py -m workloads.probe --processors A,B`` prints one JSON
document with lists of samples in nanoseconds:

- ``latency_ns``: one-way message latency between two processors, both ends spinning;
- ``switch_ns``: what a read costs more if its target is blocked on another processor that a
  rival keeps busy: wake-up, switch and return from the block. This is the context-switch
  cost that a waiting process weighs its spinning against;
- ``handoff_ns``: what it costs to block and let the other process of the same processor
  run until its answer, beyond the messages: a switch without a wake-up across processors;
- ``wakeup_ns``: what a read costs more if its target is blocked on an idle processor;
- ``unit_ns``: a step through the working set (one sample, 0 without ``--working-set-bytes``).

With a single processor only the hand-off can be measured; it stands for the switch, and the
latency is taken as part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from time import perf_counter_ns
from typing import Any

from workloads.blocking import FIXED, FOREVER_NS, Waiting
from workloads.compute import Compute, unit_ns
from workloads.messaging import Messenger, world
from workloads.recorder import Recorder

RANKS = 3
SERVER, READER, RIVAL = range(RANKS)

SPINNING = Waiting(FIXED, 0, 0, FOREVER_NS, 0)
BLOCKING = Waiting(FIXED, 0, 0, 0, 0)

BATCH = 20
"""Reads per sample; a sample is their mean."""

FALL_ASLEEP_NS = 50_000
"""Pause before each read that is to find its server asleep."""


class Probe:
    """Reads between a server and a reader, with or without a rival on the server's processor.

    Collective over RANKS ranks.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._comm = world()
        self._pair: Any = self._comm.Split(self._comm.rank == RIVAL)

    def round_trips_ns(
        self,
        places: tuple[int, int],
        *,
        server: Waiting,
        reader: Waiting,
        pause_ns: int = 0,
        rival: bool = False,
    ) -> list[float]:
        """Round-trip times, in nanoseconds, of reads with server and reader on ``places``.

        The reader computes for ``pause_ns`` before each read, outside of its time. The reader
        returns means of BATCH reads, the others an empty list.
        """
        if self._comm.rank == RIVAL:
            if rival:
                self._compete(places[SERVER])
            return []
        os.sched_setaffinity(0, {places[self._comm.rank]})
        messenger = Messenger(self._pair, (server, reader)[self._comm.rank], Recorder())
        found = self._read(messenger, pause_ns) if self._comm.rank == READER else []
        messenger.barrier(learning=False)
        messenger.close()
        if rival and self._comm.rank == READER:
            self._comm.send(None, RIVAL)
        return found

    def _compete(self, place: int) -> None:
        os.sched_setaffinity(0, {place})
        over = self._comm.irecv(source=READER)
        while not over.test()[0]:
            pass

    def _read(self, messenger: Messenger, pause_ns: int) -> list[float]:
        pause = Compute()
        found = []
        for _ in range(self._samples):
            taken_ns = 0
            for _ in range(BATCH):
                pause(pause_ns)
                begin = perf_counter_ns()
                messenger.read(SERVER)
                taken_ns += perf_counter_ns() - begin
            found.append(taken_ns / BATCH)
        return found


def measure(processors: list[int], samples: int, working_set_bytes: int) -> dict[str, Any]:
    """All constants; the document of the module's description, on the reader. Collective."""
    probe = Probe(samples)
    a, b = processors[0], processors[-1]
    handed = probe.round_trips_ns((a, a), server=BLOCKING, reader=BLOCKING)
    if a == b:
        handoff_ns = [time / 2 for time in handed]
        found = {"latency_ns": [0.0], "switch_ns": handoff_ns, "handoff_ns": handoff_ns, "wakeup_ns": [0.0]}
    else:
        spun = probe.round_trips_ns((a, b), server=SPINNING, reader=SPINNING)
        woken, switched = (
            probe.round_trips_ns(
                (a, b), server=BLOCKING, reader=SPINNING, pause_ns=FALL_ASLEEP_NS, rival=rival
            )
            for rival in (False, True)
        )
        base_ns = statistics.median(spun or [0.0])
        found = {
            "latency_ns": [time / 2 for time in spun],
            "switch_ns": [time - base_ns for time in switched],
            "handoff_ns": [(time - base_ns) / 2 for time in handed],
            "wakeup_ns": [time - base_ns for time in woken],
        }
    return {**found, "unit_ns": [unit_ns(working_set_bytes)]} if world().rank == READER else {}


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m workloads.probe", description=__doc__)
    parser.add_argument("--processors", required=True, help="ids of one or two processors: A,B")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--working-set-bytes", type=int, default=0)
    options = parser.parse_args(arguments)
    processors = [int(processor) for processor in options.processors.split(",")]
    if world().size != RANKS:
        raise SystemExit(f"workloads.probe wants {RANKS} ranks and has {world().size}")
    found = measure(processors, options.samples, options.working_set_bytes)
    if found:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
