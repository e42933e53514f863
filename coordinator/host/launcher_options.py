"""Options of launchers in users' commands: Lockstep passes some of them on, and refuses the others."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from coordinator.host.launchers import Launcher
from workloads.validation import InputError

COUNTS = ("n", "np", "ntasks")  # options with the number of processes

UNPLACED = "leave it out (hosts, bind, threads and processors of the experiment say where processes run)"


@dataclass(frozen=True)
class GivenOption:
    """An option that a command gives its launcher."""

    words: tuple[str, ...]  # with those behind it that belong to it
    name: str  # without hyphens
    values: tuple[str, ...]

    @property
    def value(self) -> str:
        return "".join(self.values[:1])


def given(
    words: Sequence[str], kinds: Collection[type[Launcher]]
) -> tuple[list[GivenOption], tuple[str, ...]]:
    """The options at the beginning of the words behind a launcher of one of these kinds, and the program.

    The word behind an option that none of them has is taken for its value if it is no program.
    """
    behind = {name: 1 for kind in kinds for name in kind.places.split()}
    behind |= {name: 0 for kind in kinds for name in kind.places_alone.split()}
    behind |= {
        name: count for kind in kinds for count, names in enumerate(kind.options) for name in names.split()
    }
    behind |= dict.fromkeys(COUNTS, 1)
    options = list[GivenOption]()
    place = 0
    while place < len(words) and words[place].startswith("-"):
        name, equals, value = words[place].lstrip("-").partition("=")
        count = 0 if equals else behind.get(name)
        if count is None:
            following = "".join(words[place + 1 : place + 2])
            count = int(bool(following) and not following.startswith("-") and not shutil.which(following))
        end = place + 1 + count
        values = (value,) if equals else tuple(words[place + 1 : end])
        options.append(GivenOption(tuple(words[place:end]), name, values))
        place = end
    return options, tuple(words[place:])


def accepted(
    words: Sequence[str], kinds: Collection[type[Launcher]]
) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """The options that a user's command gives its launcher, the number of processes, and the program.

    ``words`` are those behind the launcher's name; it is of one of these ``kinds``. The number is empty if
    there is none. Options that bind to no processor are left out: Lockstep gives them itself.

    Raises:
        InputError: for an option by which the launcher would place processes, or that none of them has.
    """
    known = {name for kind in kinds for names in kind.options for name in names.split()}
    placing = {name for kind in kinds for name in f"{kind.places} {kind.places_alone}".split()}
    unbinding = {spelled for kind in kinds for spelled in kind.unbinding}
    options = list[str]()
    count = ""
    every, command = given(words, kinds)
    for one in every:
        if {one.name, f"{one.name} {one.value.lower()}"} & unbinding:
            pass
        elif one.name in COUNTS:
            count = one.value
        elif one.name in known:
            options += one.words
        elif one.name in placing:
            raise InputError(
                "command",
                one.words[0],
                "cannot place or bind processes: Lockstep binds and places them itself",
                UNPLACED,
            )
        else:
            raise InputError(
                "command",
                one.words[0],
                f"is no option that Lockstep passes on to {' or '.join(kind.kind for kind in kinds)}",
                f"write one of {', '.join(sorted(known))}, or none",
            )
    return tuple(options), count, command
