"""``--set key=value``: replace any key of an experiment file.

``repeats=3``, ``jobs.0.program.pattern=NEWS`` or ``jobs[0].program.pattern=NEWS``,
``program.granularity_us=100`` (every job's program), ``sweep.program.imbalance=[0.25,1.5]``.
Values are TOML values; bare words are taken as text.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from harness.spec.table_checks import DEEPEST, check_depth
from workloads.validation import InputError, brief, shown

Step = str | int
DIGITS = 9
"""The most digits of an index in a key."""
_STEP = re.compile(r"""(?:"([^"]+)"|\[(\d+)\]|([\w-]+))\.?""")
_BARE_WORD = re.compile(r"[A-Za-z][\w.+-]*")


@dataclass(frozen=True)
class Override:
    """One replacement: the path to a key, its new value, and its origin for messages."""

    steps: tuple[Step, ...]
    value: Any
    origin: str

    def touches(self, key: str) -> bool:
        """Whether this override sets the value at ``key`` (as errors write it), at least in part."""
        mine = _written(self.steps)
        if self.steps[0] == "program":
            key = re.sub(r"^jobs\[\d+\]\.", "", key)
        within = ((key, mine), (mine, key))
        return key == mine or any(inner.startswith((f"{outer}.", f"{outer}[")) for inner, outer in within)


def parse(text: str) -> Override:
    """The override that ``--set TEXT`` asks for.

    Raises:
        InputError: if TEXT is not ``key=value`` with a TOML value.
    """
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise InputError("--set", text, "must be key=value", "for example --set repeats=3")
    return make(key.strip(), _value(key.strip(), value.strip()), f"--set {brief(text)}")


def make(key: str, value: Any, origin: str) -> Override:
    """The override of the dotted ``key``; ``origin`` is how messages name it.

    Raises:
        InputError: if ``key`` is not a dotted key.
    """
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
        remedy = "write names and numbers with dots between, as in jobs.0.program.pattern"
        raise InputError(key, value, "is not a key of an experiment file", remedy)
    return Override(tuple(steps), value, origin)


def apply(data: dict[str, Any], override: Override) -> None:
    """Put the override into ``data``, modified in place.

    Raises:
        InputError: if its key leads through something that is not there, or is swept.
    """
    steps, swept = override.steps, data.get("sweep")
    name = re.sub(r"^jobs\.\d+\.", "", ".".join(map(str, steps)))
    if isinstance(swept, dict) and name in swept:
        rule = f"the file sweeps it over {shown(swept[name])}"
        raise InputError(
            _written(steps), override.value, rule, f"override the sweep: --set sweep.{name}=[...]"
        )
    if steps[0] != "program":
        _put(data, steps, override.value)
        return
    jobs = data.get("jobs")
    for number, job in enumerate(jobs if isinstance(jobs, list) else ()):
        if not (isinstance(job, dict) and {"command", "kind"} & job.keys()):  # those have no program
            _put(data, ("jobs", number, *steps), override.value)


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
    key, step, table = _written(steps), steps[depth], _written(steps[:depth])
    if not isinstance(here, list):
        what = "a table" if isinstance(here, dict) else "a single value"
        raise InputError(key, value, f"{table} is {what} without a key {step!r}", "check the key")
    if not isinstance(step, int):
        everywhere = f", or {step}.KEY for all" if step == "program" else ""
        remedy = f"name an entry, as in {table}.0.{step}{everywhere}"
        raise InputError(key, value, f"{table} is a list of {len(here)}", remedy)
    if step >= len(here):
        rule = f"{table} has {len(here)} entries, numbered from 0"
        raise InputError(key, value, rule, "choose an existing entry, or edit the file")
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
    rule = "must be a TOML value or one bare word"
    raise InputError(key, text, rule, 'write a number, true, "text" in quotes, or [a, list]')


def _written(steps: tuple[Step, ...]) -> str:
    if steps[0] == "sweep" and len(steps) > 1:
        return f'sweep."{steps[1]}"'
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
