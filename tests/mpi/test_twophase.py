"""An mpi4py program's own calls with two-phase waits; runs under ``mpiexec -n N`` for any N."""

import time
from array import array

import pytest
from mpi4py import MPI

from workloads.blocking import RULES, waiting
from workloads.recorder import Recorder
from workloads.twophase import TwoPhase

pytestmark = pytest.mark.mpi

PLAIN = MPI.COMM_WORLD
RANK, SIZE = PLAIN.rank, PLAIN.size
LEFT, RIGHT = (RANK - 1) % SIZE, (RANK + 1) % SIZE
NAMES = pytest.mark.parametrize("name", [name for name in RULES if name != "oracle"])


class Job:
    """COMM_WORLD with two-phase waits for the length of a block."""

    def __init__(self, name="immediate"):
        self.recorder = Recorder()
        rule = waiting(name, switch_us=5.0, latency_us=2.0)
        self.comm = TwoPhase.of(PLAIN, rule, self.recorder)

    def __enter__(self):
        return self.comm, self.recorder

    def __exit__(self, *error):
        self.comm.close()


@NAMES
def test_collective_operations_give_what_they_give_without(name):
    mine, total = array("d", [RANK + 1.0]), array("d", [0.0])
    with Job(name) as (comm, _):
        for root in range(SIZE):
            assert comm.bcast(("from", RANK), root) == ("from", root)
            assert comm.gather(RANK, root=root) == (list(range(SIZE)) if root == RANK else None)
            assert comm.scatter(list(range(SIZE)) if root == RANK else None, root) == RANK
        assert comm.allreduce(RANK) == sum(range(SIZE))
        assert comm.alltoall([10 * RANK + other for other in range(SIZE)]) == [
            10 * other + RANK for other in range(SIZE)
        ]
        comm.Allreduce(mine, total, op=MPI.SUM)
        assert total[0] == SIZE * (SIZE + 1) / 2
        comm.Barrier()


@NAMES
def test_messages_of_all_kinds_arrive(name):
    out, into = array("i", [RANK]), array("i", [-1])
    with Job(name) as (comm, _):
        for _ in range(20):
            comm.Sendrecv(out, RIGHT, 1, into, LEFT, 1)
            assert into[0] == LEFT
            assert comm.sendrecv({"from": RANK}, dest=RIGHT, source=LEFT) == {"from": LEFT}
            request = comm.irecv(source=LEFT, tag=7)
            late = comm.isend("late", RIGHT, tag=7)
            assert request.wait() == "late"
            late.wait()
            buffered = comm.Irecv(into, LEFT, 8)
            sent = comm.Isend(out, dest=RIGHT, tag=8)
            assert buffered.Wait() and into[0] == LEFT
            sent.Wait()


def test_messages_are_received_by_their_tags_and_from_anybody():
    with Job() as (comm, _):
        sent = [comm.isend(tag, RIGHT, tag) for tag in (1, 2, 3)]
        assert [comm.recv(source=LEFT, tag=tag) for tag in (3, 1, 2)] == [3, 1, 2]
        status = MPI.Status()
        sent.append(comm.isend("anyone", dest=RIGHT, tag=5))
        comm.Probe(status=status)
        assert (status.source, status.tag) == (LEFT, 5)
        assert comm.recv() == "anyone"
        assert comm.recv(source=MPI.PROC_NULL) is None
        MPI.Request.Waitall(sent)


@pytest.mark.parametrize("call", ["Barrier", "allreduce", "recv", "wait"])
def test_who_waits_for_a_late_rank_sleeps(call):
    """Over 0.7 s without the others a rank uses next to no processor time."""
    with Job() as (comm, recorder):
        comm.Barrier()
        before_ns = time.thread_time_ns()
        if RANK == SIZE - 1:
            time.sleep(0.7)
        if call == "Barrier":
            comm.Barrier()
        elif call == "allreduce":
            comm.allreduce(1)
        elif RANK == SIZE - 1:
            for other in range(SIZE - 1):
                comm.send("now", other)
        elif call == "recv":
            assert comm.recv(source=SIZE - 1) == "now"
        else:
            assert comm.irecv(source=SIZE - 1).wait() == "now"
        spent_ms = (time.thread_time_ns() - before_ns) / 1e6
        if RANK != SIZE - 1:
            assert spent_ms < 20
            assert recorder.barriers.blocked + recorder.reads.blocked >= 1


def test_parts_of_a_communicator_wait_alike():
    with Job() as (comm, _):
        half = comm.Split(RANK % 2, RANK)
        copy = comm.Dup()
        for made in (half, copy):
            assert isinstance(made, TwoPhase)
            assert made.messenger is not None
            assert made.allreduce(1) == made.size
            made.Free()
        nothing = comm.Split(MPI.UNDEFINED if RANK else 0, 0)
        assert (nothing == MPI.COMM_NULL) == (RANK > 0)
        if nothing != MPI.COMM_NULL:
            nothing.Free()


def test_no_notice_is_lost():
    """A lost one would be found by the sleeper's own look, which is counted."""
    with Job() as (comm, recorder):
        begin = time.monotonic()
        for turn in range(500):
            assert comm.sendrecv(turn, dest=RIGHT, source=LEFT) == turn
        comm.Barrier()
        assert comm.messenger.rechecks == 0
        assert recorder.reads.spun + recorder.reads.blocked == 500
        assert time.monotonic() - begin < 60
