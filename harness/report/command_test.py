"""A command as a test in JUnit's XML: the file shows how it has ended, also after a signal."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.analyse.lookout import Fault
from harness.report.junit import Case, Failure, as_xml
from workloads.validation import refused

SUITE = "lockstep exec"

Ended = Callable[[int, Fault | None], None]
"""Gets the status of a command, and why it was ended."""


@contextmanager
def as_test(path: Path, command: Sequence[str], tell: Callable[[str], None]) -> Iterator[Ended]:
    """A function that writes how a command has ended; an exception before that is written, too.

    Raises InputError if the file cannot be written. If it cannot be written at the end, ``tell`` gets that:
    the status of the command is more important.
    """
    file = _CommandFile(path, shlex.join(command))
    with refused("--junit", path, "cannot be written", "name another file"):
        file.begin()

    def end(*failures: Failure, notes: str = "") -> None:
        try:
            file.end(*failures, notes=notes)
        except OSError as error:
            tell(f"--junit = {str(path)!r}: cannot be written: {error.strerror}")

    def ended(status: int, fault: Fault | None) -> None:
        said = f"the command has ended with status {status}"
        if fault is not None and status:
            end(Failure(fault.verdict, f"{fault.text}\n{said}"))
        elif status:
            end(Failure(said, error=True))
        else:
            end(notes=fault.text if fault is not None else "")

    try:
        yield ended
    except BaseException as error:
        if not file.ended:
            end(Failure(str(error) or "interrupted", error=True))
        raise


@dataclass
class _CommandFile:
    """A file with a command as its only test, which is an error until the command has ended.

    Its content is always whole. What is no regular file, and what is our standard output, is opened only at
    the end, to append to it.
    """

    path: Path
    command: str
    begin_s: float = field(default_factory=time.monotonic)
    ended: bool = False

    def begin(self) -> None:
        if not self._is_stream():
            self._write(Failure("the command has not ended", error=True))
        elif self.path.is_dir() or not os.access(self.path, os.W_OK):
            self.path.open("ab").close()  # which says why

    def end(self, *failures: Failure, notes: str = "") -> None:
        self.ended = True
        self._write(*failures, notes=notes)

    def _is_stream(self) -> bool:
        if not self.path.exists():
            return False
        streams = []
        for number in (1, 2):
            with suppress(OSError):
                streams.append(os.fstat(number))
        here = self.path.stat()
        return not self.path.is_file() or any(os.path.samestat(here, one) for one in streams)

    def _write(self, *failures: Failure, notes: str = "") -> None:
        case = Case(self.command, time.monotonic() - self.begin_s, failures, notes)
        text = as_xml(SUITE, [case]).encode()
        if self._is_stream():
            with self.path.open("ab") as stream:
                stream.write(text)
            return
        path = self.path.resolve()
        part = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            part.write_bytes(text)
            part.replace(path)
        except OSError:
            with suppress(OSError):
                part.unlink()
            path.write_bytes(text)  # perhaps only its directory cannot be written
