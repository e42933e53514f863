"""What the instrumented waits cost, beside the same exchange in plain mpi4py, in one run.

    mpiexec -n 2 -bind-to none python -m mpi4py tests/benchmarks/messaging.py

Prints a table: medians over rounds that alternate between the two, so that a machine whose
speed drifts treats both alike. Ratios, not times, are what to look at.
"""

import os
import statistics
import sys
from time import perf_counter_ns, sleep

from mpi4py import MPI

from workloads.blocking import FIXED, FOREVER_NS, IMMEDIATE, SPIN, Waiting
from workloads.messaging import Messenger
from workloads.recorder import Recorder

COMM = MPI.COMM_WORLD
ROUNDS, REPEATS = 30, 500
SPINNING = Waiting(SPIN, 0, 0, 0, 0)


def plain_barrier(count):
    """The root barrier with Send and Recv."""
    message = memoryview(bytearray(24)).cast("q")
    for _ in range(count):
        if COMM.rank:
            COMM.Send(message, 0, 1)
            COMM.Recv(message, 0, 2)
        else:
            for other in range(1, COMM.size):
                COMM.Recv(message, other, 1)
            for other in range(1, COMM.size):
                COMM.Send(message, other, 2)


def plain_round_trip(count):
    """Rank 1 asks rank 0, which answers: Send and Recv."""
    message = memoryview(bytearray(24)).cast("q")
    for _ in range(count):
        if COMM.rank == 1:
            COMM.Send(message, 0, 1)
            COMM.Recv(message, 0, 2)
        elif COMM.rank == 0:
            COMM.Recv(message, 1, 1)
            COMM.Send(message, 1, 2)


def two_phase_barrier(messenger):
    def run(count):
        for _ in range(count):
            messenger.barrier(learning=False)

    return run


def two_phase_read(messenger):
    def run(count):
        if COMM.rank == 1:
            for _ in range(count):
                messenger.read(0)
        messenger.barrier(learning=False)

    return run


def alternate(*functions):
    """Median nanoseconds per repeat of each function, run in turn."""
    times = [[] for _ in functions]
    for _ in range(ROUNDS):
        for function, found in zip(functions, times, strict=True):
            COMM.Barrier()
            begin = perf_counter_ns()
            function(REPEATS)
            found.append((perf_counter_ns() - begin) / REPEATS)
    return [statistics.median(found) for found in times]


def wake_up_ns():
    """From a send to a receiver asleep on its own idle processor until its answer is back."""
    rule = Waiting(FIXED, 0, 0, FOREVER_NS, 0) if COMM.rank else Waiting(IMMEDIATE, 0, 0, 0, 0)
    messenger = Messenger(COMM, rule, Recorder())
    found = []
    if COMM.rank == 1:
        for _ in range(200):
            sleep(0.001)
            begin = perf_counter_ns()
            messenger.read(0)
            found.append(perf_counter_ns() - begin)
    messenger.barrier(learning=False)
    messenger.close()
    return statistics.median(found) if found else 0.0


def main():
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[COMM.rank % len(os.sched_getaffinity(0))]})
    messenger = Messenger(COMM, SPINNING, Recorder())
    barrier, own_barrier, trip, own_trip = alternate(
        plain_barrier, two_phase_barrier(messenger), plain_round_trip, two_phase_read(messenger)
    )
    messenger.close()
    woken = COMM.gather(wake_up_ns(), 0)
    if COMM.rank == 0:
        print(f"{'medians, P = ' + str(COMM.size):28}{'plain us':>10}{'two-phase us':>14}{'ratio':>8}")
        for name, plain, own in (("barrier", barrier, own_barrier), ("read round trip", trip, own_trip)):
            print(f"{name:28}{plain / 1e3:10.2f}{own / 1e3:14.2f}{own / plain:8.2f}")
        print(f"{'read of a blocked process':28}{'':10}{woken[1] / 1e3:14.2f}")


if __name__ == "__main__":
    if COMM.size < 2:
        sys.exit("start it with mpiexec -n 2 or more")
    main()
