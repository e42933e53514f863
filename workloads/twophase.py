"""Two-phase waits for any mpi4py program: ``mpiexec -n P python -P -m workloads.twophase [OPTIONS] APP.py``.

The program is not changed. It finds a communicator in ``MPI.COMM_WORLD`` whose blocking calls
spin and then block, by the rules of ``workloads.blocking``:

- a collective operation first waits, two-phase, until all ranks have called it, then is MPI's;
- a receive (also within Sendrecv), Probe and the wait for an Irecv wait two-phase for the message.

Limits: the transfer after that wait is MPI's and spins. So do a Send until a large message is taken,
Waitall and its kin, I-collectives, one-sided and file operations, and communicators made otherwise
than by Dup and Split. Every collective operation synchronizes and costs a root barrier more, every
message a notice.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Literal

from mpi4py import MPI, run

from workloads.blocking import ESTIMATES, RULES, Waiting, waiting
from workloads.messaging import Messenger
from workloads.recorder import Recorder

COLLECTIVES = (
    *("Bcast", "Reduce", "Allreduce", "Gather", "Gatherv", "Allgather", "Allgatherv", "Scatter", "Scatterv"),
    *("Alltoall", "Alltoallv", "Alltoallw", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Exscan"),
    *("bcast", "reduce", "allreduce", "gather", "allgather", "scatter", "alltoall", "scan", "exscan"),
)
SENDS = ("Send", "Bsend", "Isend", "Ibsend", "send", "bsend", "isend", "ibsend", "Issend", "issend")


class TwoPhase(MPI.Intracomm):
    """A communicator whose blocking calls wait two-phase.

    Collective: every rank of ``comm`` makes one at the same time, with the same rule, and closes
    it at the same time.

    Attributes:
        messenger: of this communicator; None for one that waits as MPI does.
    """

    messenger: Messenger | None = None
    _rule: Waiting
    _recorder: Recorder

    @classmethod
    def of(cls, comm: MPI.Intracomm, rule: Waiting, recorder: Recorder) -> TwoPhase:
        """The same communicator with two-phase waits, noted in ``recorder``."""
        made = cls(comm)
        made._rule, made._recorder = rule, recorder
        made.messenger = Messenger(comm, rule, recorder)
        return made

    def Dup(self, info: MPI.Info | None = None) -> TwoPhase:  # noqa: N802
        """A duplicate that waits alike."""
        return self._alike(MPI.Intracomm(super().Dup() if info is None else super().Dup(info)))

    def Split(self, color: int = 0, key: int = 0) -> TwoPhase:  # noqa: N802
        """The part of the ranks with this colour; it waits alike."""
        return self._alike(MPI.Intracomm(super().Split(color, key)))

    def _alike(self, comm: MPI.Intracomm) -> TwoPhase:
        if self.messenger is None or comm == MPI.COMM_NULL:
            return TwoPhase(comm)
        return self.of(comm, self._rule, self._recorder)

    def Free(self) -> None:  # noqa: N802
        """Collective."""
        self.close()
        super().Free()

    def close(self) -> None:
        """Wait as MPI does from now on. Collective."""
        if self.messenger is not None:
            self.messenger.close()
            self.messenger = None

    def gathered(self) -> None:
        """Wait until all ranks have called this."""
        if self.messenger is not None:
            self.messenger.barrier(learning=True)

    Barrier = barrier = gathered

    def arrived(self, source: int, tag: int) -> None:
        """Wait until a message that fits is here."""
        if self.messenger is not None and source != MPI.PROC_NULL:
            self.messenger.await_arrival(lambda: bool(self.Iprobe(source, tag)))

    def Probe(  # noqa: N802
        self, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG, status: MPI.Status | None = None
    ) -> Literal[True]:
        """Wait for a message without receiving it."""
        self.arrived(source, tag)
        return super().Probe(source, tag, status)

    def Recv(  # noqa: N802
        self,
        buf: Any,
        source: int = MPI.ANY_SOURCE,
        tag: int = MPI.ANY_TAG,
        status: MPI.Status | None = None,
    ) -> None:
        """Receive a message into a buffer."""
        self.arrived(source, tag)
        super().Recv(buf, source, tag, status)

    def recv(
        self,
        buf: Any = None,
        source: int = MPI.ANY_SOURCE,
        tag: int = MPI.ANY_TAG,
        status: MPI.Status | None = None,
    ) -> Any:
        """Receive an object."""
        self.arrived(source, tag)
        return super().recv(buf, source, tag, status)

    def Sendrecv(self, sendbuf: Any, *where: Any, **named: Any) -> None:  # noqa: N802
        """Send and receive at the same time."""
        _exchange(self.Isend, self.Recv, sendbuf, *where, **named)

    def sendrecv(self, sendobj: Any, *where: Any, **named: Any) -> Any:
        """Send an object and receive one at the same time."""
        return _exchange(self.isend, self.recv, sendobj, *where, **named)

    def Irecv(  # noqa: N802
        self, buf: Any, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG
    ) -> MPI.Request:
        """Begin to receive; the request's Wait is two-phase."""
        return _Arriving.of(super().Irecv(buf, source, tag), self.messenger)

    def irecv(self, buf: Any = None, source: int = MPI.ANY_SOURCE, tag: int = MPI.ANY_TAG) -> MPI.Request:
        """Begin to receive an object; the request's wait is two-phase."""
        return _Arriving.of(super().irecv(buf, source, tag), self.messenger)


def _exchange(
    send: Callable[..., MPI.Request],
    receive: Callable[..., Any],
    sent: Any,
    dest: int,
    sendtag: int = 0,
    recvbuf: Any = None,
    source: int = MPI.ANY_SOURCE,
    recvtag: int = MPI.ANY_TAG,
    status: MPI.Status | None = None,
) -> Any:
    """Sendrecv or sendrecv, by their parts; the arguments are theirs."""
    request = send(sent, dest, sendtag)
    received = receive(recvbuf, source, recvtag, status)
    request.Wait()
    return received


class _Arriving(MPI.Request):
    """The request of an Irecv, on which one waits two-phase."""

    _messenger: Messenger | None = None

    @classmethod
    def of(cls, request: MPI.Request, messenger: Messenger | None) -> MPI.Request:
        made = cls(request)
        made._messenger = messenger
        return made

    def Wait(self, status: MPI.Status | None = None) -> Literal[True]:  # noqa: N802
        """Wait for the message."""
        self._arrived()
        return super().Wait(status)

    def wait(self, status: MPI.Status | None = None) -> Any:
        """Wait for the object and return it."""
        self._arrived()
        return super().wait(status)

    def _arrived(self) -> None:
        if self._messenger is not None:
            self._messenger.await_arrival(self.Get_status)


def _after_all_have_called(name: str) -> Callable[..., Any]:
    plain = getattr(MPI.Intracomm, name)

    @wraps(plain)
    def call(self: TwoPhase, *args: Any, **options: Any) -> Any:
        self.gathered()
        return plain(self, *args, **options)

    return call


def _with_notice(name: str) -> Callable[..., Any]:
    plain = getattr(MPI.Intracomm, name)

    @wraps(plain)
    def call(self: TwoPhase, *args: Any, **options: Any) -> Any:
        sent = plain(self, *args, **options)
        dest = options["dest"] if "dest" in options else args[1]
        if self.messenger is not None and dest != MPI.PROC_NULL:
            self.messenger.poll()  # those who only send must not let notices pile up
            self.messenger.notify(dest)
        return sent

    return call


for _name in COLLECTIVES:
    setattr(TwoPhase, _name, _after_all_have_called(_name))
for _name in SENDS:
    setattr(TwoPhase, _name, _with_notice(_name))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads.twophase", description="Run an mpi4py program with two-phase waits."
    )
    parser.add_argument("--blocking", choices=list(RULES), default="global-adaptive")
    parser.add_argument("--spin-switches", type=float, default=2, help="spin of the fixed rule")
    parser.add_argument(
        "--imbalance-estimate", choices=list(ESTIMATES), default="arrival-spread", help="of global-adaptive"
    )
    parser.add_argument("--switch-us", type=float, default=10.0, help="cost of a context switch")
    parser.add_argument("--latency-us", type=float, default=2.0, help="one-way message latency")
    parser.add_argument("--record", type=Path, metavar="DIR", help="write a record of each rank there")
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="APP.py ...")
    return parser


def main(arguments: Sequence[str]) -> None:
    """Run a program as ``python -m mpi4py`` does: one rank's error aborts all."""
    options = parser().parse_args(arguments)
    program = options.program[options.program[:1] == ["--"] :]
    if not program:
        parser().error("which program?")
    if options.blocking == "oracle":
        parser().error("--blocking oracle: nobody knows the imbalance of this program")
    rule = waiting(
        options.blocking,
        switch_us=options.switch_us,
        latency_us=options.latency_us,
        spin_switches=options.spin_switches,
        imbalance_estimate=options.imbalance_estimate,
    )
    recorder = Recorder()
    world = TwoPhase.of(MPI.COMM_WORLD, rule, recorder)
    MPI.COMM_WORLD = world  # type: ignore[misc]  # for the program
    if sys.flags.safe_path:
        sys.path.insert(0, str(Path.cwd()))  # our modules are imported; from now on the program finds its own
    recorder.start()
    try:
        run.run_command_line(program)
    except SystemExit as end:
        run.set_abort_status(end)
        raise
    except BaseException as error:
        run.set_abort_status(error)
        raise
    if options.record is not None:
        _write(options.record, world, recorder)
    if not MPI.Is_finalized():
        world.close()


def _write(folder: Path, world: TwoPhase, recorder: Recorder) -> None:
    """Write the fields of the rank record (docs/formats.md) that are known of a foreign program."""
    unknown = ("computing_ns", "communicating_ns", "synchronizing_ns")
    known = {key: value for key, value in recorder.finish().items() if key not in unknown}
    assert world.messenger is not None
    rank = {"rank": world.messenger.rank, "processes": world.messenger.size}
    record = rank | known | {"rechecks": world.messenger.rechecks}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"rank-{rank['rank']}.json").write_text(json.dumps(record))


if __name__ == "__main__":
    main(sys.argv[1:])
