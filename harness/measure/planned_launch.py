"""What a command would start, from its words, its scripts and its variables: nothing runs."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from string import Template

from coordinator.host.bindings import Mask
from coordinator.host.launcher_options import COUNTS, GivenOption, given
from coordinator.host.launchers import Launcher, OpenMpi, Srun, kind_at, kinds_of

SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
WRAPPERS = (
    *("exec", "time", "nice", "ionice", "chrt", "timeout", "nohup", "setsid", "stdbuf", "numactl", "perf"),
    *("likwid-pin", "hwloc-bind", "strace", "valgrind", "command", "builtin"),
)
"""Programs, and words of shells, that run the command behind them."""

EXEC = "lockstep exec"
KEYWORDS = ("then", "do", "else", "if", "while", "!", "{")
ENDS = set("();|&\n")
SYSTEM_FOLDERS = (Path("/bin"), Path("/usr/bin"), Path("/sbin"), Path("/usr/sbin"))
DEEPEST = 4  # scripts that start scripts
LONGEST_TEXT = 1 << 20  # characters
MOST_LAUNCHES = 200
COMPILERS = ("mpicc", "mpicxx", "mpic++", "mpifort", "mpif90", "mpif77")
"""Of MPI: in scripts they are looked for, too."""

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
BIND_OPTIONS = ("bind-to", "binding", "cpu-bind")
BIND_VARIABLES = (
    "OMPI_MCA_hwloc_base_binding_policy",
    "PRTE_MCA_hwloc_default_binding_policy",
    "HYDRA_BINDING",
)
BIND_THEMSELVES = ("I_MPI_", "MV2_")
"""How variables of MPIs begin that bind their ranks by rules of their own."""

VARIABLE_OPTIONS = ("x", "genv", "env")
DIRECTORY_OPTIONS = ("wdir", "wd", "chdir", "D")


@dataclass(frozen=True)
class PlannedProgram:
    """A program with its arguments, and how many ranks of it there would be; None if that is not known."""

    words: tuple[str, ...]
    ranks: int | None = 1

    @property
    def path(self) -> Path | None:
        """Its file; None if there is none."""
        found = shutil.which(self.words[0]) if self.words else None
        return Path(found) if found else None


@dataclass(frozen=True)
class PlannedLaunch:
    """Programs that a command would start at once: the ranks of a launcher, or a program by itself."""

    programs: tuple[PlannedProgram, ...]
    variables: Mapping[str, str]
    processors: Mask
    """On which it may run, by the words in front of it."""

    launcher: str = ""
    """The path of the launcher; empty without one."""

    options: tuple[GivenOption, ...] = ()
    wrappers: tuple[str, ...] = field(default=())
    """The programs in front of it."""

    moved: bool = False
    """Whether it runs in another directory, so that relative paths are unknown."""

    @property
    def kind(self) -> type[Launcher] | None:
        return kind_at(self.launcher) if self.launcher else None

    @property
    def ranks(self) -> int | None:
        counts = [one.ranks for one in self.programs]
        return None if None in counts else sum(one or 0 for one in counts)

    @property
    def two_phase(self) -> bool:
        return EXEC in self.wrappers

    def binding(self, cores: int) -> str:
        """To what the launcher binds each rank: "core", "none", or another kind; empty if that is unknown.

        ``cores`` are those of the host.
        """
        for word in ("core", "socket", "none"):
            if self.option(f"bind-to-{word}") is not None:
                return word
        named = [self.option(*BIND_OPTIONS), *map(self.variables.get, BIND_VARIABLES)]
        if chosen := next(filter(None, named), ""):
            kind = chosen.lower().partition(":")[0]
            return "core" if kind in ("core", "cores", "hwthread", "threads") else kind
        if self.kind is not None and issubclass(self.kind, OpenMpi):
            return "core" if 1 <= (self.ranks or 0) <= min(2, cores) else ""
        unknown = self.kind is Srun or any(name.startswith(BIND_THEMSELVES) for name in self.variables)
        return "none" if self.launcher and not unknown else ""

    def option(self, *names: str) -> str | None:
        """The value of the first option with one of these names; None without one."""
        return next((one.value for one in self.options if one.name in names), None)


def planned(command: Sequence[str], variables: Mapping[str, str], processors: Mask) -> list[PlannedLaunch]:
    """The first MOST_LAUNCHES that can be read from a command and from shell scripts that it names."""
    around = PlannedLaunch((), dict(variables), processors)
    return list(islice(_launches(tuple(command), around, ()), MOST_LAUNCHES))


def host_cores() -> int:
    """How many cores this host has, however many processors each of them has."""
    files = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list")
    return len({file.read_text() for file in files}) or os.cpu_count() or 1


def text_of(file: Path) -> str:
    """The text of a regular file; empty if it is none, cannot be read, or is longer than LONGEST_TEXT."""
    with suppress(OSError, ValueError):
        if file.is_file():  # a pipe would be waited for, and a device may have no end
            with file.open() as opened:
                text = opened.read(LONGEST_TEXT + 1)
            return text if len(text) <= LONGEST_TEXT else ""
    return ""


def _launches(
    words: tuple[str, ...], around: PlannedLaunch, inside: tuple[Path | None, ...]
) -> Iterator[PlannedLaunch]:
    """``around`` has the variables, the processors and the wrappers of the place where the words stand.

    ``inside`` has the scripts in which they stand; None stands for a text behind ``sh -c``.
    """
    words, around = _unwrapped(words, around)
    if not words or len(inside) > DEEPEST:
        return
    name = Path(words[0]).name
    if name in SHELLS:
        place = next((place for place, word in enumerate(words) if re.fullmatch(r"-\w*c", word)), None)
        if place is not None:
            yield from _of_text(" ".join(words[place + 1 : place + 2]), around, (*inside, None))
        elif script := _script(_first_program(words[1:])):
            yield from _of_script(script, around, inside)
        return
    path = shutil.which(words[0])
    if path and kinds_of(words[0]):
        yield _launch(path, words[1:], around)
    elif script := _script(words[:1]):
        yield from _of_script(script, around, inside)
    elif (
        not inside
        or (path and Path(path).parent not in SYSTEM_FOLDERS)
        or name.startswith("python")
        or name in COMPILERS
    ):
        yield replace(around, programs=(PlannedProgram(words),))


def _unwrapped(words: tuple[str, ...], around: PlannedLaunch) -> tuple[tuple[str, ...], PlannedLaunch]:
    """The words behind assignments and programs that run the command behind them."""
    variables, processors, wrappers = dict(around.variables), around.processors, list(around.wrappers)
    moved = around.moved
    while words:
        name = Path(words[0]).name
        if words[0] in KEYWORDS:
            words = words[1:]
        elif match := ASSIGNMENT.fullmatch(words[0]):
            variables[match[1]] = match[2]
            words = words[1:]
        elif name == "env":
            words = words[1:]
            while words and (words[0].startswith("-")):
                if words[0] == "-u":
                    variables.pop("".join(words[1:2]), None)
                moved |= words[0].startswith(("-C", "--chdir"))
                words = words[2 if words[0] in ("-u", "-C") else 1 :]
        elif name == "taskset" and len(words) > 2:
            wrappers.append(name)
            lists = any(re.fullmatch(r"-\w*c\w*|--cpu-list", word) for word in words[1:3])
            words = words[1:]
            while words and words[0].startswith("-"):
                words = words[1:]
            processors &= _processors("".join(words[:1]), lists=lists) or processors
            words = words[1:]
        elif name == "lockstep" and words[1:2] == ("exec",) and "--" in words:
            wrappers.append(EXEC)
            words = words[words.index("--") + 1 :]
        elif name in WRAPPERS:
            wrappers.append(name)
            words = _first_program(words[1:])
        else:
            break
    around = replace(
        around, variables=variables, processors=processors, wrappers=tuple(wrappers), moved=moved
    )
    return words, around


def _first_program(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words from the first one on that is a program or a file, or else no option and no number."""
    for place, word in enumerate(words):
        if not word.startswith("-") and (shutil.which(word) or Path(word).is_file()):
            return words[place:]
    place = next((p for p, word in enumerate(words) if not re.match(r"-|[\d.]+\w?$", word)), len(words))
    return words[place:]


def _processors(text: str, *, lists: bool) -> Mask:
    """What taskset is given: a list, or a mask in hexadecimal digits."""
    with suppress(ValueError):
        if not lists:
            mask = int(text.replace(",", ""), 16)
            return Mask(place for place in range(mask.bit_length()) if mask >> place & 1)
        parts = [part.partition(":")[0].partition("-") for part in text.split(",")]
        return Mask(one for first, _, last in parts for one in range(int(first), int(last or first) + 1))
    return Mask()


def _launch(path: str, words: tuple[str, ...], around: PlannedLaunch) -> PlannedLaunch:
    kinds = [kind] if (kind := kind_at(path)) else kinds_of(path)
    variables, options, programs = dict(around.variables), list[GivenOption](), list[PlannedProgram]()
    for part in _parts(words):
        own, program = given(part, kinds)
        options += own
        for one in own:
            if one.name in VARIABLE_OPTIONS:
                name, equals, value = "=".join(one.values).partition("=")
                variables |= {name: value} if equals else {}
        if program:
            programs.append(PlannedProgram(program, _count(own, kinds)))
    return replace(
        around,
        programs=tuple(programs),
        variables=variables,
        launcher=path,
        options=tuple(options),
        moved=around.moved or any(one.name in DIRECTORY_OPTIONS for one in options),
    )


def _parts(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words between colons, which are programs of one job."""
    while ":" in words:
        yield words[: words.index(":")]
        words = words[words.index(":") + 1 :]
    yield words


def _count(options: Sequence[GivenOption], kinds: Sequence[type[Launcher]]) -> int | None:
    of_open_mpi = any(issubclass(kind, OpenMpi) for kind in kinds)
    counts = (*COUNTS, "c") if of_open_mpi else COUNTS  # -c of srun has the processors of each rank
    for one in options:
        attached = re.fullmatch(r"n(\d+)", one.name)  # as srun takes it
        number = attached[1] if attached else one.value
        if (attached or one.name in counts) and number.isdecimal():
            return int(number)
    return None


def _script(words: Sequence[str]) -> Path | None:
    """The shell script that the first word names; None if it names none."""
    found = next((shutil.which(word) or word for word in words[:1]), "")
    path = Path(found)
    first = text_of(path).partition("\n")[0]
    named = first.startswith("#!") and {Path(word).name for word in first[2:].split()} & set(SHELLS)
    return path if named or (first and path.suffix == ".sh") else None


def _of_script(
    script: Path, around: PlannedLaunch, inside: tuple[Path | None, ...]
) -> Iterator[PlannedLaunch]:
    """The launches of a script, unless it is one of those in which its name stands."""
    script = script.resolve()
    if script not in inside:
        yield from _of_text(text_of(script), around, (*inside, script))


def _of_text(text: str, around: PlannedLaunch, inside: tuple[Path | None, ...]) -> Iterator[PlannedLaunch]:
    """The launches of a script's lines, with what it exports up to each of them."""
    values = dict(around.variables)  # with those that are not exported
    every = False
    for line in text.replace("\\\n", " ").splitlines():
        for command in _commands(line, values):
            words = command
            while words and words[0] in KEYWORDS:
                words = words[1:]
            if words[:2] == ("set", "-a"):
                every = True
            elif words[:1] in (("cd",), ("pushd",)):
                around = replace(around, moved=True)
            elif words[:1] == ("export",) or all(map(ASSIGNMENT.fullmatch, words)):
                matches = filter(None, map(ASSIGNMENT.fullmatch, words))
                values |= {match[1]: match[2] for match in matches}
                exported = {*around.variables, *(values if every else ())}
                if words[:1] == ("export",):
                    exported |= {word.partition("=")[0] for word in words[1:]}
                kept = {name: value for name, value in values.items() if name in exported}
                around = replace(around, variables=kept)
            else:
                yield from _launches(words, around, inside)


def _commands(line: str, variables: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    """The simple commands of a line, without assignments whose value is not known."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list[str]()
    with suppress(ValueError):  # a quotation of several lines
        for word in lexer:
            if set(word) <= ENDS:
                if words:
                    yield tuple(words)
                words = []
                continue
            plain = Template(word).safe_substitute(variables)
            if not ("$" in plain and ASSIGNMENT.fullmatch(plain)):
                words.append(plain)
    if words:
        yield tuple(words)
