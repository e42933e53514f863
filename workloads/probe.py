"""Constants of this host that the waiting rules go by, measured with the messages they govern.

``mpiexec -n 2 python -m mpi4py -m workloads.probe --processors A,B`` prints one JSON
document with lists of samples in nanoseconds:

- ``latency_ns``: one-way message latency between two processors, both ends spinning;
- ``switch_ns``: what it costs to block and let the other process of the processor run
  until its answer, beyond the messages themselves: the context-switch cost of the paper;
- ``wakeup_ns``: what a message costs more if its receiver sleeps on an idle processor;
- ``unit_ns``: a step through the working set (one sample, 0 without ``--working-set-bytes``).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from time import perf_counter_ns
from typing import Any

from workloads.blocking import FIXED, FOREVER_NS, IMMEDIATE, SPIN, Waiting
from workloads.compute import Compute, unit_ns
from workloads.messaging import Messenger, world
from workloads.recorder import Recorder

SPINNING = Waiting(SPIN, 0, 0, 0, 0)
BLOCKING = Waiting(IMMEDIATE, 0, 0, 0, 0)
PATIENT = Waiting(FIXED, 0, 0, FOREVER_NS, 0)
PROMPT = Waiting(FIXED, 0, 0, 0, 0)

READER, SERVER = 1, 0
BATCH = 20
"""Reads per sample; a sample is their mean."""


FALL_ASLEEP_NS = 50_000
"""Pause before each read that is to find its server asleep."""


def round_trips_ns(
    rules: tuple[Waiting, Waiting], processors: tuple[int, int], samples: int, pause_ns: int = 0
) -> list[float]:
    """Round-trip times of reads between two ranks placed on ``processors``, in nanoseconds.

    ``rules`` and ``processors`` are (server's, reader's); the reader computes for
    ``pause_ns`` before each read, outside of its time. Collective over two ranks; the
    reader returns ``samples`` means of BATCH reads, the server an empty list.
    """
    comm = world()
    os.sched_setaffinity(0, {processors[comm.rank]})
    messenger = Messenger(comm, rules[comm.rank], Recorder())
    pause = Compute()
    found = []
    if comm.rank == READER:
        for _ in range(samples):
            taken_ns = 0
            for _ in range(BATCH):
                pause(pause_ns)
                begin = perf_counter_ns()
                messenger.read(SERVER)
                taken_ns += perf_counter_ns() - begin
            found.append(taken_ns / BATCH)
    messenger.barrier(learning=False)
    messenger.close()
    return found


def probe(processors: tuple[int, int], samples: int, working_set_bytes: int) -> dict[str, Any]:
    """All constants; the document of the module's description, on the reader. Collective."""
    a, b = processors
    spun = round_trips_ns((SPINNING, SPINNING), (a, b), samples)
    switched = round_trips_ns((BLOCKING, BLOCKING), (a, a), samples)
    woken = round_trips_ns((PROMPT, PATIENT), (a, b), samples, FALL_ASLEEP_NS)
    if world().rank != READER:
        return {}
    round_trip_ns = statistics.median(spun)
    return {
        "latency_ns": [time / 2 for time in spun],
        "switch_ns": [(time - round_trip_ns) / 2 for time in switched],
        "wakeup_ns": [time - round_trip_ns for time in woken],
        "unit_ns": [unit_ns(working_set_bytes)],
    }


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m workloads.probe", description=__doc__)
    parser.add_argument("--processors", required=True, help="ids of the two processors: A,B")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--working-set-bytes", type=int, default=0)
    options = parser.parse_args(arguments)
    a, b = (int(processor) for processor in options.processors.split(","))
    if world().size != 2:
        raise SystemExit(f"workloads.probe wants 2 ranks and has {world().size}")
    found = probe((a, b), options.samples, options.working_set_bytes)
    if found:
        sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
