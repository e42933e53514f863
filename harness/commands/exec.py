"""``lockstep exec -- COMMAND...``: run any command so that the MPI programs that it starts wait two-phase."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from coordinator.host.processes import Process
from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from workloads import native
from workloads.blocking import RULES, waiting
from workloads.validation import InputError

PASSED_ON = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT),
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT, signal.SIGWINCH),
)
FROM_A_PROCESS = (0, -1, -6)
"""si_code of kill, sigqueue and tgkill. A terminal's signals reach the command by themselves."""

LARGEST_RECORD_BYTES = 65536
CREDENTIALS_BYTES = socket.CMSG_SPACE(struct.calcsize("3i"))


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add = parser.add_argument
    rules = [name for name in RULES if name != "oracle"]
    add("--blocking", choices=rules, default="global-adaptive", help="the waiting rule")
    add("--spin-switches", type=float, default=2, metavar="N", help="spin of the fixed rule")
    add("--switch-us", type=float, default=10.0, metavar="US", help="cost of a context switch")
    add("--latency-us", type=float, default=2.0, metavar="US", help="one-way message latency")
    add("--record", type=Path, metavar="DIR", help="write a record of each rank there")
    add(
        "--mpicc",
        metavar="WRAPPER",
        help="the compiler wrapper of the programs' MPI (default: the launcher's)",
    )
    add("program", nargs=argparse.REMAINDER, metavar="-- COMMAND ...", help="what to run")


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Run the command; its status is ours.

    Raises:
        InputError: if there is no such command, or a number of the rule is out of bounds.
        NativeError: if the library that waits cannot be made.
    """
    command = options.program[options.program[:1] == ["--"] :]
    if not command:
        raise InputError("COMMAND", "", "is missing", "write: lockstep exec -- mpiexec -n 4 ./app")
    rule = waiting(
        options.blocking,
        switch_us=options.switch_us,
        latency_us=options.latency_us,
        spin_switches=options.spin_switches,
    )
    mpicc = Path(options.mpicc) if options.mpicc else native.wrapper(command)
    made = native.library(mpicc, watcher.note)
    variables = made.environment(rule)
    if options.record is not None:
        _make(options.record)
        variables["LOCKSTEP_RECORD"] = str(options.record.resolve())
    with _Listener() as listener:
        status = _run(command, {**os.environ, **variables, "LOCKSTEP_LISTENER": listener.name})
    document = _summary(listener.records)
    return Answer(document, (), status=status, notes=(_line(document),))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        rule = f"cannot be made: {error.strerror}"
        raise InputError("--record", str(folder), rule, "name a directory that you can write to") from error


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run the command in our place, passing signals on; returns its status as a shell would."""
    blocked = {*PASSED_ON, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        child = subprocess.Popen(
            command,
            env=environment,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),  # noqa: PLW1509 # it locks nothing
        )
        handle = Process(child.pid)
        while child.poll() is None:
            came = signal.sigwaitinfo(blocked)
            if came.si_signo != signal.SIGCHLD and came.si_code in FROM_A_PROCESS:
                handle.send(signal.Signals(came.si_signo))
        handle.close()
    except OSError as error:
        rule = f"cannot be run: {error.strerror}"
        raise InputError("COMMAND", shlex.join(command), rule, "look at its name and path") from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


class _Listener:
    """Takes the records that ranks on this host send when they end.

    Its socket has no place in any file system, so that nothing of it can be left behind. Every user of the
    host can find it and send to it: what does not come from a process of ours is ignored.
    """

    def __init__(self) -> None:
        self.name = f"lockstep-{secrets.token_hex(16)}"
        self.records: list[dict[str, Any]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.bind(f"\0{self.name}")
        self._thread = threading.Thread(target=self._take, daemon=True)

    def __enter__(self) -> _Listener:
        self._thread.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        """Take what has been sent by now, and no more."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"", f"\0{self.name}")
        self._thread.join()
        self._socket.close()

    def _take(self) -> None:
        while True:
            datagram, ancillary, _, _ = self._socket.recvmsg(LARGEST_RECORD_BYTES, CREDENTIALS_BYTES)
            sender = [struct.unpack("3i", data) for *_, data in ancillary]
            if not sender or sender[0][1] != os.getuid():
                continue
            if datagram:
                self.records.append(json.loads(datagram))
            elif sender[0][0] == os.getpid():
                return


def _summary(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the ranks have recorded, summed up."""
    kinds = [waits for record in records for waits in record["waits"].values()]
    blocked = sum(waits["blocked"] for waits in kinds)
    return {
        "schema": SCHEMA,
        "ranks": len(records),
        "waits": blocked + sum(waits["spun"] for waits in kinds),
        "blocked": blocked,
        "rechecks": sum(record["rechecks"] for record in records),
        "cpu_s": sum(record["cpu_ns"] for record in records) / 1e9,
        "given_back_s": sum(record["asleep_ns"] for record in records) / 1e9,
    }


def _line(document: Mapping[str, Any]) -> str:
    if not document["ranks"]:
        return "two-phase waits: no MPI program of the library's MPI has ended on this host"
    share = document["blocked"] / max(1, document["waits"])
    return (
        f"two-phase waits: {document['ranks']} ranks, {document['waits']} waits, {100 * share:.1f} % blocked,"
        f" {document['given_back_s']:.1f} s of processor time given back (used: {document['cpu_s']:.1f} s)"
    )
