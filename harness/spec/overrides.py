"""``--set key=value``: replace any key of an experiment file.

``repeats=3``, ``jobs.0.program.pattern=NEWS`` or ``jobs[0].program.pattern=NEWS``,
``program.granularity_us=100`` (every job's program), ``quantum_ms=10`` (every scheduler that has one),
``sweep.program.imbalance=[0.25,1.5]``. Values are TOML values; bare words are taken as text.
"""

import re
import shlex
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from coordinator import policies
from harness.spec.scheduler import SHARED, has_key, who_has
from harness.spec.settings import OF_TWO_PHASE, TWO_PHASE, are_settings
from harness.spec.table_checks import DEEPEST, Table, check_depth, field_names
from workloads.locks.lock_program import LockProgram
from workloads.validation import InputError, brief, shown

Step = str | int
DIGITS = 9  # the most digits of an index in a key
_STEP = re.compile(r"""(?:"([^"]+)"|\[(\d+)\]|([\w-]+))\.?""")
_BARE_WORD = re.compile(r"[A-Za-z][\w.+-]*")


@cache
def scheduler_keys() -> tuple[str, ...]:
    """Keys of [[schedulers]] tables. Without a table before it, such a key sets all tables that have it."""
    return tuple(sorted({*SHARED, *(key for name in policies.known() for key in policies.parameters(name))}))


@dataclass(frozen=True)
class Override:
    """One replacement: the path to a key, its new value, and its origin for messages."""

    steps: tuple[Step, ...]
    value: Any
    origin: str

    def touches(self, key: str) -> bool:
        """Whether this override sets the value at ``key`` (as errors write it), at least in part."""
        return self.sets(key) or _is_in(_written(self.steps), self._of_its_table(key))

    def sets(self, key: str) -> bool:
        """Whether the value at ``key`` is this override's, or a part of it."""
        mine = _written(self.steps)
        key = self._of_its_table(key)
        return key == mine or _is_in(key, mine)

    @property
    def room(self) -> str:
        """The top-level key of the file that it changes."""
        first = str(self.steps[0])
        if first == "program":
            return "jobs"
        return "schedulers" if first in scheduler_keys() else first

    def _of_its_table(self, key: str) -> str:
        """The key within its table, if the override changes all tables of its room."""
        return key if self.room == self.steps[0] else re.sub(rf"^{self.room}\[\d+\]\.", "", key)


def parse(text: str) -> Override:
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise InputError("--set", text, "must be KEY=VALUE", "write --set repeats=3, say")
    return make(key.strip(), _value(key.strip(), value.strip()), f"--set {brief(text)}")


def make(key: str, value: Any, origin: str) -> Override:
    """The override of the dotted ``key``; ``origin`` is how messages name it."""
    if key.startswith("sweep."):
        return Override(("sweep", key.removeprefix("sweep.").strip('"')), value, origin)
    steps: list[Step] = []
    at = 0
    while match := _STEP.match(key, at):
        word = match[1] or match[3]
        number = match[2] or (word if word.isdecimal() and word.isascii() else "")
        steps.append(int(number[:DIGITS]) if number else word)
        at = match.end()
    if at != len(key) or not 0 < len(steps) <= DEEPEST or key.endswith(".") or isinstance(steps[0], int):
        raise InputError(
            key,
            value,
            "is not a key of an experiment file",
            "write names and numbers with dots between, as in jobs.0.program.pattern",
        )
    return Override(tuple(steps), value, origin)


def scheduler(text: str) -> dict[str, Any]:
    """The [[schedulers]] table that a policy with its keys asks for, such as ``gang quantum_ms=20``."""
    try:
        name, *settings = shlex.split(re.sub(r"\s*=\s*", "=", text)) or [""]
    except ValueError:
        raise InputError("--policy", text, "must have quotes in pairs", "close the quotation") from None
    wrong = [name] if "=" in name else [setting for setting in settings if "=" not in setting]
    if wrong:
        raise InputError(
            "--policy",
            text,
            f"must be a policy and KEY=VALUE with blanks between them, and {wrong[0]!r} is neither",
            'write "gang quantum_ms=20", say',
        )
    table: dict[str, Any] = {"schedulers": [{"policy": name}]}
    for setting in settings:
        apply(table, parse(f"schedulers.0.{setting}"))
    return dict(table["schedulers"][0])


def schedulers(texts: Iterable[str]) -> list[Override]:
    """The override that puts these policies, with their keys, in the place of the file's schedulers."""
    names = list(texts)
    tables_ = [scheduler(text) for text in names]
    origin = " ".join(f"--policy {shlex.quote(text)}" for text in names)
    return [Override(("schedulers",), tables_, brief(origin))] if names else []


def room(key: str) -> str:
    return make(key, None, key).room


def reaches(key: str, number: int, table: Any) -> bool:
    """Whether a ``key`` of schedulers changes this [[schedulers]] table, the one with this number."""
    steps = make(key, None, key).steps
    return (
        steps[1] == number if steps[0] == "schedulers" and len(steps) > 1 else has_key(table, str(steps[0]))
    )


def there(data: Table, key: str) -> bool:
    """Whether the tables of a file have a value at the dotted ``key``, wherever it reaches."""
    override = make(key, None, key)
    rooms: list[Any] = [data]
    if override.room != override.steps[0]:
        rooms = _tables(data, override.room)
    return any(_leads(room, override.steps) for room in rooms)


def _leads(here: Any, steps: tuple[Step, ...]) -> bool:
    for step in steps:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def apply(data: dict[str, Any], override: Override) -> None:
    """Put the override into ``data``, modified in place."""
    steps = override.steps
    key = _written(override.steps)
    swept = data.get("sweep")
    for axis, values in swept.items() if isinstance(swept, dict) and steps[0] != "sweep" else ():
        if make(axis, None, axis).touches(key):
            raise InputError(
                key,
                override.value,
                f"cannot be set, since the file sweeps it over {shown(values)}",
                f"write --set sweep.{axis}=[...]",
            )
    if steps[0] == "program":
        for number, job in enumerate(_tables(data, "jobs")):
            if not (isinstance(job, dict) and {"command", "kind"} & job.keys()):  # those have no program
                _put(data, ("jobs", number, *steps), override.value)
    elif override.room == "schedulers" and steps[0] != "schedulers":
        having = [n for n, table in enumerate(_tables(data, "schedulers")) if has_key(table, str(steps[0]))]
        if not having:
            rule, remedy = _nobody_has(data.get("schedulers"), key, override.value)
            raise InputError(key, override.value, rule, remedy)
        for number in having:
            _put(data, ("schedulers", number, *steps), override.value)
    elif len(steps) == 1 and steps[0] in field_names(LockProgram):
        raise InputError(
            key,
            override.value,
            "is not a key of the experiment, but of programs",
            f"write program.{key} for all jobs, or jobs.0.program.{key} for one",
        )
    else:
        _put(data, steps, override.value)


def _nobody_has(tables: Any, key: str, value: Any) -> tuple[str, str]:
    """Why no [[schedulers]] table has a key by itself, and what to write."""
    if not are_settings(tables):
        return "no [[schedulers]] table has this key", who_has(key)
    if key not in OF_TWO_PHASE:
        return "cannot be set, because [[schedulers]] tables with settings have no such key", "leave it out"
    rule = f"cannot be set in all [[schedulers]] tables, because it belongs to the setting {TWO_PHASE!r}"
    numbers = [n for n, one in enumerate(tables) if isinstance(one, dict) and one.get("setting") == TWO_PHASE]
    if not numbers:
        return rule, f'add a table with setting = "{TWO_PHASE}"'
    return rule, f"write schedulers.{numbers[0]}.{key}={value}"


def _tables(data: Table, key: str) -> list[Any]:
    tables = data.get(key)
    return tables if isinstance(tables, list) else []


def _put(data: dict[str, Any], steps: tuple[Step, ...], value: Any) -> None:
    here: Any = data
    for depth, step in enumerate(steps[:-1]):
        if isinstance(here, dict) and isinstance(step, str):
            following: Any = [] if isinstance(steps[depth + 1], int) else {}
            here = here.setdefault(step, following)
        else:
            here = here[_index(here, steps, depth, value)]
    if isinstance(here, dict) and isinstance(steps[-1], str):
        here[steps[-1]] = value
    else:
        here[_index(here, steps, len(steps) - 1, value)] = value


def _index(here: Any, steps: tuple[Step, ...], depth: int, value: Any) -> int:
    """``steps[depth]`` as a valid index of ``here``, or an InputError that says why not."""
    key = _written(steps)
    step = steps[depth]
    table = _written(steps[:depth])
    if not isinstance(here, list):
        what = "a table" if isinstance(here, dict) else "a single value"
        raise InputError(
            key, value, f"cannot be set: {table} is {what} without a key {step!r}", "check the key"
        )
    if not isinstance(step, int):
        everywhere = f", or {step}.KEY for all" if step == "program" else ""
        raise InputError(
            key,
            value,
            f"must have a number: {table} is a list of {len(here)}",
            f"name an entry, as in {table}.0.{step}{everywhere}",
        )
    if step >= len(here):
        rule = f"cannot be set: {table} has {len(here)} entries, numbered from 0"
        fewer = f"name entry {len(here) - 1} or less" if here else f"write {table}=[{shown(value)}]"
        raise InputError(key, value, rule, f"{fewer}, or edit the file")
    return step


def _value(key: str, text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
        check_depth(parsed, key)
    except InputError:
        raise
    except (ValueError, RecursionError):  # no TOML, or a value that int, datetime or the parser refuses
        parsed = {}
    if parsed.keys() == {"value"}:
        return parsed["value"]
    if _BARE_WORD.fullmatch(text):
        return text
    raise InputError(
        key,
        text,
        "must be a TOML value or one bare word",
        'write a number, true, "text" in quotes, or [a, list]',
    )


def _is_in(inner: str, outer: str) -> bool:
    return inner.startswith((f"{outer}.", f"{outer}["))


def _written(steps: tuple[Step, ...]) -> str:
    if steps[0] == "sweep" and len(steps) > 1:
        return f'sweep."{steps[1]}"'
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
