"""A user's defaults of options, for every command that has them; what the command line says wins."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workloads.validation import InputError, LockstepError

if TYPE_CHECKING:
    from harness.spec.experiment_source import Document

NUMBERS = ("tau", "tolerance", "rounds", "give-up")
OPTIONS = ("results", *NUMBERS)
"""Long names of the options that may stand there: habits of a user, which change no experiment."""


class NoHomeError(LockstepError):
    """There is no place for a user's defaults."""


def file() -> Path:
    """Where the defaults stand.

    Raises:
        NoHomeError: nothing says where this user's files are.
    """
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".config") / "lockstep" / "config.toml"
    except RuntimeError:
        raise NoHomeError("no defaults of options: this user has no home directory; set HOME") from None


def read() -> dict[str, Any]:
    """The defaults by attribute of the parsed options; empty without a file."""
    path = file()
    if not os.path.isfile(path):  # noqa: PTH113 - never raises
        return {}
    from harness.spec import experiment_source  # noqa: PLC0415 - only where there is a file

    return _checked(experiment_source.parse(experiment_source.text_of(str(path), "configuration"), str(path)))


def _checked(document: Document) -> dict[str, Any]:
    from workloads.bounds import within  # noqa: PLC0415
    from workloads.validation import known_keys  # noqa: PLC0415

    found: dict[str, Any] = {}
    try:
        known_keys(document.data, OPTIONS, "")
        for name, value in document.data.items():
            if name in NUMBERS:
                within(f"--{name}", value, name)
            elif not isinstance(value, str) or not value:
                raise InputError(name, value, "must be the path of a directory", "write it in quotes")
            found[name.replace("-", "_")] = value if name in NUMBERS else _path(value)
    except InputError as error:
        raise document.located(error) from None
    return found


def _path(text: str) -> Path:
    with suppress(RuntimeError):  # there is no such user
        return Path(text).expanduser()
    return Path(text)
