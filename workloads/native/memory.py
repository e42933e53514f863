"""Answers that cost a compiler run, kept in the cache directory for as long as some files are unchanged."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def recall(place: Path, question: str) -> str | None:
    """The answer that was kept for a question; None without one, or if a file under it has changed."""
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):  # none, or half of one
        kept = json.loads(_file(place, question).read_bytes())
        if all(_state(path) == state for path, state in kept["files"].items()):
            return str(kept["answer"])
    return None


def remember(place: Path, question: str, answer: str, files: Iterable[Path]) -> None:
    """Keep the answer to a question, which rests on these files; without room for it nothing is kept."""
    with suppress(OSError):
        kept = {"answer": answer, "files": {str(path): _state(path) for path in files}}
        _file(place, question).write_text(json.dumps(kept))  # a reader of half of it finds no JSON


def _file(place: Path, question: str) -> Path:
    return place / f"known-{hashlib.sha256(os.fsencode(question)).hexdigest()[:24]}"


def _state(path: str | Path) -> list[str | int]:
    """What is at a path: another file there, or another content, has another state."""
    found = os.stat(path)  # noqa: PTH116 - twenty of them at each start
    # A link's own time is not enough: what it leads to may be exchanged.
    return [os.path.realpath(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns]
