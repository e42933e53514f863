"""The set-up of an agent, and how the driver passes it on.

It contains the node's secret key. So it travels on standard input, also through a launcher, or in a file of
mode 0600, never on a command line, which all users can read, or in the environment, which launchers send
unencrypted.
"""

from __future__ import annotations

import os
import select
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from coordinator.wire import protocol
from coordinator.wire.line_format import LineError, LineFormat, by_name
from coordinator.wire.zmq_transport import Keys
from workloads.options import DEFAULTS, Options
from workloads.validation import InputError

PATIENCE_S = 30.0  # how long an agent waits for its set-up on standard input
LONGEST_BYTES = 1 << 16  # every set-up is much shorter
PART = 512  # bytes of a value in a launcher's key-value space; more may not fit


@dataclass(frozen=True)
class Setup:
    """All that an agent must know to begin."""

    directory: str  # path of the run directory, the same on every node
    endpoint: str  # where the driver listens
    driver_key: str  # the driver's public key
    # The node's key pair; of several nodes that one launch starts, the pair from which theirs follow.
    keys: Keys
    mechanism: str | None  # its name; None if the policy stops nothing
    lease_s: float  # how long the agent continues without the driver
    options: Options = DEFAULTS  # the scheduler's
    same_clock: bool = True  # whether the run is on the driver's host only, so that both share one clock
    # Descriptor of a handle on the driver (a pidfd), inherited from it; None on other hosts.
    driver: int | None = None
    # The jobs that others have started, each with the name of its first process.
    trees: tuple[tuple[int, str], ...] = ()
    number: int = 0  # of the first node that the launch starts, if it starts several

    def encode(self) -> str:
        return SETUP.encode(self).decode()

    @classmethod
    def decode(cls, text: str | bytes) -> Setup:
        try:
            setup: Setup = SETUP.decode(text)
        except LineError as error:
            raise LineError(
                f"this is not an agent's set-up of version {protocol.AGENTS_VERSION}: {error}"
            ) from error
        return setup

    def write(self, path: Path) -> None:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(self.encode())


SETUP = LineFormat(by_name(Setup), protocol.AGENTS_VERSION)


def find_own(rank: str) -> Setup:
    """The set-up of this node, one of a launch of several that gives each its number in variable ``rank``."""
    number = int(os.environ[rank])
    pmi = os.environ.get("PMI_FD")
    line = b"" if pmi and number else _given()
    setup = Setup.decode(_shared(int(pmi), line) if pmi else line)
    return replace(setup, keys=setup.keys.of(setup.number + number))


def _shared(pmi: int, line: bytes) -> bytes:
    """What one process of a launch was given, for all of them: by the launcher's key-value space (PMI 1)."""
    with os.fdopen(pmi, "r+b", buffering=0) as launcher:

        def ask(words: str, answer: str = "cmd") -> str:
            reply = b""
            with suppress(ConnectionError):
                launcher.write(f"cmd={words}\n".encode())
                reply = launcher.readline()
            if not reply:
                raise SystemExit("the launcher of the agents has ended")
            return dict(word.partition("=")[::2] for word in reply.decode().split())[answer]

        ask("init pmi_version=1 pmi_subversion=1")
        space = "kvsname=" + ask("get_my_kvsname", "kvsname")
        text = line.hex()
        parts = [text[at : at + PART] for at in range(0, len(text), PART)]
        for key, value in enumerate([len(parts), *parts] if parts else ()):
            ask(f"put {space} key={key} value={value}")
        ask("barrier_in")
        count = int(ask(f"get {space} key=0", "value"))
        text = "".join(ask(f"get {space} key={key}", "value") for key in range(1, count + 1))
        ask("finalize")
    return bytes.fromhex(text)


def find(path: Path | None = None) -> Setup:
    """The set-up in the file ``path``, or else on the first line of standard input, which is then closed."""
    if path is None:
        if not (line := _given()):
            raise InputError(
                "FILE",
                None,
                "an agent needs the set-up that its driver made, here or on standard input",
                "name the file that a driver wrote for this node",
            )
        return Setup.decode(line)
    try:
        status = path.stat()
        if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise InputError("FILE", str(path), "holds a key and must be yours alone", f"chmod 600 {path}")
        return Setup.decode(path.read_text())
    except OSError as error:
        raise InputError("FILE", str(path), f"cannot be read: {error.strerror}", "name another") from error


def _given() -> bytes:
    """The first line of standard input; empty if there is none, or if that is a terminal."""
    line = b""
    with suppress(OSError):
        # Read one line: not every launcher passes the end of input on.
        while not os.isatty(0) and b"\n" not in line and len(line) < LONGEST_BYTES:
            ready, _, _ = select.select([0], [], [], PATIENCE_S)
            if not ready or not (more := os.read(0, LONGEST_BYTES)):
                break
            line += more
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    return line.partition(b"\n")[0]
