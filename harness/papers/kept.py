"""What a reproduction has simulated, in a file from which an interrupted one goes on.

The first line says what the simulations belong to; each other line is a cell with its outcome, and a checksum
of both. The file lasts until all cells are there.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness.predict import replicate
from harness.simulator import cache
from harness.simulator.jobs.metrics import Metrics
from workloads.validation import InputError, refused

FOLDER = "reproductions"
"""Where the files are, below the directory for records."""

KINDS: Mapping[str, Callable[..., Any]] = {
    "namespace": SimpleNamespace,
    **{kind.__name__: kind for kind in (replicate.Mean, Metrics, replicate.Replications)},
}
"""The classes of outcomes, by their names in the file."""


class KeptCells:
    """The outcomes of a reproduction's cells, by the cells' parameters, where they are known."""

    def __init__(self, folder: Path, about: Mapping[str, Any], module: Path) -> None:
        self.path = folder / FOLDER / f"{about['paper']}.jsonl"
        self._about = {**about, "code": _digest(module)}
        self._known: dict[str, Any] = {}
        self._begun = False

    def __len__(self) -> int:
        return len(self._known)

    def read(self) -> None:
        """Take over what an interrupted reproduction has left; nothing if there is no file.

        Raises:
            InputError: if that was another reproduction: other figures may be asked for, nothing else.
        """
        try:
            first, *lines = self.path.read_text().splitlines()
            about = json.loads(first)
        except (FileNotFoundError, ValueError, RecursionError):
            return
        if about != self._about:
            raise InputError(
                "--resume",
                True,
                f"{self.path} has simulations with other options, or of another version",
                "leave --resume out to begin again",
            )
        for line in lines:
            with suppress(ValueError, TypeError, RecursionError):  # a kill has cut it off
                cell, outcome, checksum = json.loads(line)
                if checksum == _checksum(cell, outcome):
                    self._known[cell] = _made(outcome)
        self._begun = True

    def of(self, cell: SimpleNamespace) -> Any:
        """The outcome of a cell; None if it is not known."""
        return self._known.get(_key(cell))

    def add(self, cell: SimpleNamespace, outcome: Any) -> None:
        with refused("--results", self.path, "cannot be written", "name a directory that you can write to"):
            if not self._begun:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self._about) + "\n")
                self._begun = True
            with self.path.open("a") as file:
                of_cell = _key(cell), _plain(outcome)
                file.write(json.dumps([*of_cell, _checksum(*of_cell)]) + "\n")
        self._known[_key(cell)] = outcome

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _key(cell: SimpleNamespace) -> str:
    return json.dumps(_plain(cell), sort_keys=True)


def _checksum(cell: str, outcome: Any) -> str:
    return hashlib.sha256(json.dumps([cell, outcome]).encode()).hexdigest()[:16]


def _digest(module: Path) -> str:
    """Of all that outcomes depend on: the simulators, the policies and the paper's own module."""
    sources = (module, *sorted(Path(replicate.__file__).parent.glob("*.py")))
    parts = [cache.digest(), *(hashlib.sha256(source.read_bytes()).hexdigest() for source in sources)]
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """The value as JSON has it: objects and tuples are objects with one entry, the name of their kind."""
    match value:
        case np.generic():
            plain_value = value.item()
        case tuple():
            plain_value = {"tuple": [_plain(one) for one in value]}
        case list():
            plain_value = [_plain(one) for one in value]
        case dict():
            plain_value = {"dict": [[_plain(key), _plain(one)] for key, one in value.items()]}
        case SimpleNamespace():
            plain_value = {"namespace": {name: _plain(one) for name, one in vars(value).items()}}
        case _ if dataclasses.is_dataclass(value):
            plain_value = {type(value).__name__: {name: _plain(one) for name, one in vars(value).items()}}
        case _:
            plain_value = value
    return plain_value


def _made(value: Any) -> Any:
    """What ``_plain`` had made the value of."""
    if isinstance(value, list):
        return [_made(one) for one in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_made(content))
    if kind == "dict":
        return {_made(key): _made(one) for key, one in content}
    return KINDS[kind](**{name: _made(one) for name, one in content.items()})
