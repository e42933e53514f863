"""Passing on what several programs write, line by line, each line with the name of its program."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

LINE_BYTES = 1 << 16  # a longer line is passed on in parts
PATIENCE_S = 1.0  # after an interruption, the rest of an output is passed on for at most this long


@contextmanager
def forwarded(names: Sequence[str], *sinks: BinaryIO) -> Iterator[list[list[Path]]]:
    """A context with a file for each program and sink; what programs write there goes on to the sink.

    A slow reader of a sink holds up the programs that write, and nothing else. On exit, all have ended.
    """
    threads: list[threading.Thread] = []
    writers: list[int] = []

    def passing(name: str, sink: BinaryIO) -> Path:
        reader, writer = os.pipe()
        writers.append(writer)
        threads.append(threading.Thread(target=_pass_on, args=(reader, sink, name.encode()), daemon=True))
        threads[-1].start()
        return Path(f"/dev/fd/{writer}")

    patience_s: float | None = PATIENCE_S
    try:
        yield [[passing(name, sink) for sink in sinks] for name in names]
        patience_s = None
    finally:
        for writer in writers:
            os.close(writer)
        for thread in threads:
            thread.join(patience_s)
        for sink in sinks if patience_s is None else ():
            try:
                sink.flush()
            except OSError:  # unread output is lost, else the end of this process would fail by it
                os.dup2(os.open(os.devnull, os.O_WRONLY), sink.fileno())


def _pass_on(reader: int, sink: BinaryIO, name: bytes) -> None:
    with suppress(OSError, ValueError), open(reader, "rb") as lines:  # without a reader, the pipe closes
        for line in iter(partial(lines.readline, LINE_BYTES), b""):
            sink.write(b"%s: %s\n" % (name, line.rstrip(b"\n")))
            sink.flush()
