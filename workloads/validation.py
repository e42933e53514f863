"""Bad input, reported so that a person can act on it.

Every check of a value in Lockstep raises :class:`InputError`. It carries the four things a
message needs, so that a caller that knows the file can put its name in front.
"""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

LONGEST = 300  # characters of a value that a message shows
FEW, MANY = 8, 12  # names that a message lists next to a suggestion, and without one

RENAMED = {
    "blocking": "waiting",
    "least": "min",
    "most": "max",
    "detour_length_us": "os_noise_length_us",
    "detour_gap_us": "os_noise_interval_us",
    "turn_us": "queried_slice_us",
    "ring_us": "wake_us",
    "reload_us": "cache_reload_us",
    "walk_step_ns": "memory_step_ns",
    "switch_scatter_us": "switch_deviation_us",
    "lateness_us": "switch_delay_us",
    "tick_lateness_us": "tick_delay_us",
    **{"beside": "colocate", "anyway": "no_wait", "doubts": "warnings", "standing": "row_status"},
}
"""Former keys of experiment files and names of the Python interface, and those that replace them."""


class LockstepError(Exception):
    """Something that Lockstep cannot do, with a message for a person."""

    exit_status: ClassVar[int] = 1
    """Exit status of a command that ends with this error."""


@dataclass
class InputError(LockstepError, ValueError):
    """A value that breaks a rule: which key, which value, which rule, and what to do."""

    exit_status: ClassVar[int] = 2

    key: str
    value: Any
    rule: str
    remedy: str

    def __str__(self) -> str:
        return f"{self._what()}: {self.rule}; {self.remedy}"

    def _what(self) -> str:
        """The key and its value; a key without a value is missing, and an option without one stands alone."""
        key = self.key if self.key.isprintable() else repr(self.key)
        if self.value is None:
            return f"{key} is missing"
        value = str(self.value) if isinstance(self.value, Path) else self.value
        if not key.startswith("--"):
            return f"{key} = {shown(value)}"
        return key if value is True else f"{key} = {_typed(value)}"


@contextmanager
def under(prefix: str) -> Iterator[None]:
    """A context in which errors name their keys as keys below ``prefix`` in a larger document."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{prefix}.{error.key}", error.value, error.rule, error.remedy) from None


@contextmanager
def refused(key: str, value: Any, rule: str, remedy: str) -> Iterator[None]:
    """A context in which an error of the operating system breaks this rule, and is its reason."""
    try:
        yield
    except OSError as error:
        raise InputError(key, str(value), f"{rule}: {reason_of(error)}", remedy) from error


def reason_of(error: OSError) -> str:
    """What the operating system says of a file, as the end of a rule: without number, name and capital."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


@contextmanager
def written(key: str, path: Path, rule: str, remedy: str) -> Iterator[None]:
    """As ``refused``, around what writes the file at ``path``; no half of it stays where the disk is full.

    A file that cannot be opened stays unchanged.
    """
    with refused(key, path, rule, remedy):
        try:
            yield
        except (FileExistsError, PermissionError):
            raise
        except OSError:
            if path.is_file():
                with suppress(OSError):
                    path.unlink()
            raise


def shown(value: Any) -> str:
    """A value as messages show it: short, whatever it is, and as an experiment file would have it."""
    try:
        text = _as_toml(value)
    except ValueError:  # Python writes no integers of thousands of digits
        return (
            f"a number of {value.bit_length()} bits"
            if isinstance(value, int)
            else "a value with such numbers"
        )
    except RecursionError:
        return "a value with tables in tables in tables"
    return brief(text)


def _as_toml(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(_as_toml, value))}]"
        case dict() if value:
            return f"{{ {', '.join(f'{_key(key)} = {_as_toml(part)}' for key, part in value.items())} }}"
        case _:
            return repr(value)


def _key(name: Any) -> str:
    """A key of a table; one with a line end is written as Python has it, so that a message is one line."""
    return str(name) if str(name).isprintable() else repr(name)


def _typed(value: Any) -> str:
    """The value of an option as the user has typed it."""
    if isinstance(value, float) and value.is_integer():
        return f"{value:.0f}"
    return " ".join(map(_typed, value)) if isinstance(value, list | tuple) else shown(value)


def printable(text: str) -> str:
    """A text from elsewhere as it can be shown: with a question mark for each character that cannot."""
    return "".join(one if one.isprintable() else "?" for one in text)


def brief(text: str) -> str:
    """A text as messages show it; a long one with its beginning only."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}... ({len(text)} characters)"


def number(
    key: str, value: Any, *, minimum: float = -math.inf, maximum: float = math.inf, above: float | None = None
) -> None:
    """Accept a finite number in [minimum, maximum], strictly greater than ``above`` if given."""
    rule = f"must be a number {_range_rule(minimum, maximum, above)}".rstrip()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(key, value, rule, _unquoted(value, minimum, maximum, above))
    finite = isinstance(value, int) or math.isfinite(value)  # an int may be too large for a float
    inside = finite and minimum <= value <= maximum and (above is None or value > above)
    if not inside:
        raise InputError(key, value, rule, _within(value, minimum, maximum, above))


def whole(key: str, value: Any, *, minimum: int, maximum: float = math.inf) -> None:
    rule = "must be a whole number " + _range_rule(minimum, maximum, None)
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(key, value, rule, _unquoted(value, minimum, maximum))
    if not minimum <= value <= maximum:
        raise InputError(key, value, rule, _within(value, minimum, maximum))


def _unquoted(value: Any, minimum: float, maximum: float, above: float | None = None) -> str:
    """The remedy for a value that is no number."""
    if isinstance(value, str) and re.fullmatch(r"[+-]?\d[\d.]*", value):
        return "write it without quotes"
    example = max(minimum, 1 if above is None else above + 1)
    return f"write {_plain(min(example, maximum))}, say"


def _within(value: float, minimum: float, maximum: float, above: float | None = None) -> str:
    """The remedy for a number outside of a range: the end that is next to it."""
    if not isinstance(value, int) and not math.isfinite(value):
        return "write a finite number"
    if value > maximum:
        return f"write {_plain(maximum)} or less"
    return f"write {_plain(minimum)} or more" if above is None else f"write more than {above:g}"


def flag(key: str, value: Any) -> None:
    if not isinstance(value, bool):
        no = value == 0 or str(value).lower() in ("no", "off", "false")
        raise InputError(key, value, "must be true or false", f"write {str(not no).lower()}, without quotes")


def one_of(key: str, value: Any, known: Iterable[str], *, others: str = "") -> None:
    """Accept one of the known names, else raise InputError that suggests the nearest, or lists them.

    ``others`` says where all of them are listed, if they are many.
    """
    names = list(known)
    if value in names:
        return
    close = _close(value if isinstance(value, str) else "", names)
    if len(names) <= FEW or not (close or others):
        rule = f"must be {any_of(names)}"
    else:
        rule = f"must be one of {len(names)} names"
    example = f"write {_named(names[0])}{', say' if len(names) > 1 else ''}"
    hint = f"did you mean {close!r}?" if close else others or example
    raise InputError(key, value, rule, hint)


def any_of(names: Sequence[str]) -> str:
    """The names as a rule lists them: those that are several words in quotes, and at most MANY."""
    rest = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"one of {', '.join(map(_named, names[:MANY]))}{rest}" if len(names) > 1 else _named(names[0])


def _named(name: str) -> str:
    return repr(name) if re.search(r"[\s,]", name) else name


def _close(word: str, known: Iterable[str]) -> str:
    """The known name that is most like a word; empty if none is much like it."""
    return next(iter(difflib.get_close_matches(word[:LONGEST], known, n=1)), "")


def closest(word: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a word that is none of the known ones: a similar one, or another remedy."""
    close = _close(word, known)
    return f"did you mean {close!r}?" if close else otherwise


def former(name: str, known: Iterable[str]) -> str:
    """The remedy for a former name of one that is known; empty for any other."""
    return f"it is called {RENAMED[name]!r} now" if RENAMED.get(name, "") in known else ""


def nearest(key: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a key that is none of the known ones: its present name, a similar one, or another."""
    names = list(known)
    table, dot, last = key.rpartition(".")
    present = RENAMED.get(last)
    renamed = f"it is called {table + dot + present!r} now" if present else ""
    if present in {name.rpartition(".")[2] for name in names}:
        return renamed
    return closest(key, names, renamed or otherwise)


def known_keys(table: Mapping[str, Any], known: Sequence[str], prefix: str) -> None:
    for key, value in table.items():
        if key not in known:
            remedy = nearest(key, known, f"remove it, or write {any_of(known)}")
            where = f"{prefix}.{key}" if prefix else key
            raise InputError(where, value, "is not a key that is known here", remedy)


def _range_rule(minimum: float, maximum: float, above: float | None) -> str:
    """The range, so that it follows "a number"."""
    if above is None and minimum > -math.inf and maximum < math.inf:
        return f"from {_plain(minimum)} to {_plain(maximum)}"
    low = f"greater than {above:g}" if above is not None else ""
    if not low and minimum > -math.inf:
        low = f"of at least {_plain(minimum)}"
    high = f"at most {_plain(maximum)}" if maximum < math.inf else ""
    return " and ".join(part for part in (low, high) if part)


def _plain(end: float) -> str:
    if isinstance(end, int):
        return str(end)
    text = f"{end:g}" if float(f"{end:g}") == end else repr(end)
    return text.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
