"""The ``lockstep`` command: the only place that prints and exits.

Exit status: 0 done; 1 it ran and something failed; 2 bad input or usage; 130 interrupted,
with everything released.
"""

import argparse
import importlib
import io
import json
import os
import re
import shlex
import signal
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from types import FrameType, MappingProxyType, ModuleType
from typing import Any, NoReturn, TextIO, cast

from coordinator.host import environment
from harness import ENDING_SIGNALS, INTERRUPTED, Interrupted, end_quietly_when_interrupted
from harness.commands import COMMAND_GROUPS, COMMANDS, RENAMED, Answer
from workloads.validation import InputError, LockstepError, brief, closest, one_of

DONE, FAILED, BAD_INPUT = 0, 1, 2

QUESTION = """\
MPI jobs that share processors can take many times as long as they should.
Lockstep measures by how much, makes them take turns or wait politely, and
predicts it."""

FIRST_STEPS = f"""{QUESTION}

measure policies   lockstep run three-jobs
my own programs    lockstep colocate -- 'mpiexec -n 2 ./one' ::: ./two
on a cluster       lockstep submit three-jobs --wait
predict            lockstep simulate three-jobs

All commands: lockstep --help
"""
AGAIN_S = 0.01  # an interruption that a finalizer swallowed comes again after this time


UNITS = {"US": "us", "MS": "ms", "S": "s", "BYTES": "bytes"}
"""Units of values by their names in help."""


class _HelpFormatter(argparse.HelpFormatter):
    """Help in which what the declaration of an argument says stands behind its text, in one form."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, value, unit = action.help or "", action.default, UNITS.get(str(action.metavar), "")
        if isinstance(value, float):
            value = f"{value:g}"
        facts = ["repeatable"] if isinstance(action, argparse._AppendAction) else []
        if action.nargs != 0 and value not in (None, []) and "(default: " not in text:
            facts.append(f"default: {value} {unit}".rstrip().replace("%", "%%"))
        elif unit and "(default: " not in text:
            facts.append(f"in {unit}")
        return f"{text} ({'; '.join(facts)})" if facts else text

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.REMAINDER and isinstance(action.metavar, str):
            return action.metavar  # and not only "..."
        return super()._format_args(action, default_metavar)


NUMBERS = {int: "a whole number", float: "a number"}
"""Types of arguments, in words."""

UNFIT = {
    r"expected (?:one|at least one) argument": ("needs a value", "write {option} {metavar}"),
    r"expected (\d+) arguments": ("needs {0} values", "write {option} {metavar}"),
    r"not allowed with argument (.*)": ("cannot be combined with {0}", "leave one of the two out"),
    r"ignored explicit argument (.*)": ("cannot have a value", "leave {0} out"),
}
"""What argparse says of an option that does not fit, and its rule and remedy in our form."""


def _metavars(action: argparse.Action) -> str:
    """The words behind an option, by what they are."""
    one = action.metavar or ""
    return " ".join(
        one if isinstance(one, tuple) else [one] * (action.nargs if isinstance(action.nargs, int) else 1)
    )


class _CommandParser(argparse.ArgumentParser):
    """The parser of a subcommand; it imports its module at first use: ``--help`` imports nothing slow.

    It raises InputError for arguments that do not fit, in place of argparse's errors, which print the usage.
    """

    module: Any = None

    def error(self, message: str) -> NoReturn:
        """Raise the error of which argparse has this message."""
        if name := message.partition("arguments are required: ")[2]:
            raise InputError(name, None, f"{self.prog} needs it", f"{self.prog} --help shows how to write it")
        name, _, reason = re.sub(r"^argument (-\w/)?", "", message).partition(": ")
        metavars = {one: _metavars(action) for action in self._actions for one in action.option_strings}
        for pattern, (rule, remedy) in UNFIT.items():
            if match := re.fullmatch(pattern, reason):
                to_write = remedy.format(*match.groups(), option=name, metavar=metavars.get(name))
                raise InputError(name, True, rule.format(*match.groups()), to_write)
        raise InputError(name, True, reason, f"{self.prog} --help shows how to write it")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        if action.type is Path and not text:  # a variable of the shell without a value, not "."
            raise InputError(
                _name(action), text, "must name a file or directory, and is empty", "write a name"
            )
        if action.type not in NUMBERS:
            return super()._get_value(action, text)
        try:
            return action.type(text)
        except ValueError:
            name, example = _name(action), action.default if isinstance(action.default, int | float) else 0
            single = f"write {name} {example or 1:g}, say"
            remedy = f"write {name} {_metavars(action)}" if isinstance(action.nargs, int) else single
            raise InputError(name, text, f"must be {NUMBERS[action.type]}", remedy) from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None:
            one_of(_name(action), value, action.choices)

    @property
    def name(self) -> str:
        return self.prog.split()[-1]

    def fill(self) -> None:
        if self.module is None:
            self.module = importlib.import_module(f"harness.commands.{self.name}")
            self.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
            self.add_argument(
                "--wide", action="store_true", help="print all columns of tables, also on a narrow terminal"
            )
            self.module.arguments(self)
            self.set_defaults(module=self.module, names={one.dest: _name(one) for one in self._actions})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in the base class, after adding the subcommand's arguments."""
        self.fill()
        parsed, rest = super().parse_known_args(_with_keys(args), namespace)
        if rest:
            options = sorted(set(re.findall(r"--[a-z][\w-]*", self.format_help())))
            hint = _unknown(rest[0].partition("=")[0], options, self.prog)
            if KEY_VALUE.match(rest[0]) and "--set" in options:
                hint = f"{brief(repr(rest[0]))} has no option before it; write --set {brief(rest[0])}"
            elif "--policy" in args and not rest[0].startswith("-"):
                hint = f'{hint}; keys of a policy: --policy "gang quantum_ms=20"'
            _complain(hint)
            self.exit(BAD_INPUT)
        return parsed, rest


def _name(action: argparse.Action) -> str:
    """An argument as messages name it."""
    return str(action.option_strings[-1] if action.option_strings else action.metavar)


class _Version(argparse.Action):
    """Finds the version only on request, because the import is slow."""

    def __call__(self, parser: argparse.ArgumentParser, *ignored: Any) -> None:
        from importlib import metadata  # noqa: PLC0415

        versions = []
        for name in ("lockstep-scheduling", "lockstep-exec"):
            with suppress(metadata.PackageNotFoundError):
                versions.append(metadata.version(name))
        print("lockstep", *versions or ["(not installed)"])
        parser.exit()


class _TopParser(argparse.ArgumentParser):
    """The parser of the whole command line; its help has the commands by what they are for."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As in the base class, but ``help COMMAND`` is ``COMMAND --help``; a hint for what is no command."""
        words = [*args[1:2], "--help"] if args[:1] == ["help"] else args
        if words and words[0] not in (*COMMANDS, *self._option_string_actions):
            is_option = words[0].startswith("-")
            names = [*self._option_string_actions] if is_option else ["help", *COMMANDS]
            _complain(_unknown(words[0], names, self.prog))
            self.exit(BAD_INPUT)
        return super().parse_known_args(words, namespace)

    def format_help(self) -> str:
        groups = []
        for group, commands in COMMAND_GROUPS.items():
            lines = (f"  {name:<11} {line}" for name, line in commands.items())
            filled = (textwrap.fill(line, 79, subsequent_indent=" " * 14) for line in lines)
            groups.append("\n".join([group, *filled]))
        options = "lockstep COMMAND --help tells more; lockstep --version prints the version."
        return "\n\n".join([self.format_usage().strip(), QUESTION, *groups, f"{options}\n"])


def parser(only: str = "") -> argparse.ArgumentParser:
    """The command line; if ``only`` is a subcommand, without the others, whose parsers take time to make."""
    top = _TopParser(prog="lockstep")
    top.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = top.add_subparsers(
        metavar="COMMAND", dest="command", required=True, parser_class=_CommandParser
    )
    parsers = [
        commands.add_parser(
            name,
            help=line,
            description=f"{line[0].upper()}{line[1:]}.",
            allow_abbrev=False,
            formatter_class=_HelpFormatter,
        )
        for name, line in COMMANDS.items()
        if only not in COMMANDS or name == only
    ]

    def whole() -> tuple[argparse.ArgumentParser, list[_CommandParser]]:
        if len(parsers) < len(COMMANDS):
            whole_and_parts: tuple[argparse.ArgumentParser, list[_CommandParser]] = parser().get_default(
                "whole"
            )()
            return whole_and_parts
        for command in parsers:
            command.fill()
        return top, parsers

    top.set_defaults(whole=whole)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    if not _streams():
        _complain("standard output is closed: redirect it to a file, a pipe or /dev/null")
        return BAD_INPUT
    variables = environment.undone(os.environ)  # what an exec around us has set is for its programs, not ours
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        if not words:
            print(FIRST_STEPS, end="")
            return _flushed(DONE)
        options = parser(words[0]).parse_args(words)
    except SystemExit as end:  # argparse has printed the help
        return _flushed(int(end.code or 0))
    except OSError as error:  # argparse could not print
        return _unwritten(error)
    except (LockstepError, ImportError) as error:
        return _refused(error)
    return _ended(options)


KEY_VALUE = re.compile(r"[a-z][a-z0-9_.]*=.")


def _with_keys(words: Sequence[str]) -> list[str]:
    """The words of a command line in which ``--policy gang quantum_ms=20`` has a policy with its key."""
    expanded: list[str] = []
    for place, word in enumerate(words):
        if word == "--":  # commands follow
            return [*expanded, *words[place:]]
        of_policy = expanded[-2:-1] == ["--policy"] or (expanded and expanded[-1].startswith("--policy="))
        if of_policy and KEY_VALUE.match(word):
            expanded[-1] += f" {shlex.quote(word)}"
        else:
            expanded.append(word)
    return expanded


def _unknown(word: str, names: Iterable[str], command: str) -> str:
    """What to say of a word of the command line that means nothing, or means nothing any more."""
    if word in RENAMED:
        return f"{word} is called {RENAMED[word]} now"
    of_command = " " in command
    if of_command and not word.startswith("-"):
        return f"{brief(repr(word))} is one argument too many for {command}; leave it out"
    what = f"an option of {command}" if word.startswith("-") else "a command"
    hint = closest(word, names, f"{command} --help lists them")
    return f"{brief(repr(word))} is not {what}; {hint}"


def _refused(error: LockstepError | ImportError, names: Mapping[str, str] = MappingProxyType({})) -> int:
    """The status of a command that cannot do what it should, or needs what a small installation lacks.

    A key that is an argument is named as in ``names``: ``latency_us`` is ``--latency-us`` on a command line.
    """
    if isinstance(error, LockstepError):
        if type(error) is InputError:
            error = replace(error, key=names.get(error.key, error.key))
        _complain(str(error))
        return error.exit_status
    if find_spec("numpy") and find_spec("harness.papers"):
        raise error  # a fault of ours
    _complain(f"{error}; this command is not in lockstep-exec: pip install lockstep-scheduling in its place")
    return BAD_INPUT


def _ended(options: argparse.Namespace) -> int:
    """Run a command, whatever ends it; return the exit status."""
    try:
        with _interruptible():
            return _answered(options)
    except KeyboardInterrupt as interruption:
        return _interrupted(str(interruption) if isinstance(interruption, Interrupted) else "interrupted")
    except SystemExit as end:
        if end.code not in [128 + signum for signum in ENDING_SIGNALS]:
            return int(end.code or 0)
        return _interrupted("interrupted")
    except BrokenPipeError:  # the reader of our output has ended
        _abandon(sys.stdout)
        return FAILED


def _answered(options: argparse.Namespace) -> int:
    try:
        _check_bounds(options)
        with _LateWatcher() as watcher:
            answer: Answer = options.module.execute(options, watcher)
    except (LockstepError, ImportError) as error:
        return _refused(error, options.names)
    try:
        if options.json:
            print(json.dumps(answer.document, indent=2, allow_nan=False))
        else:
            for part in answer.text:
                print(_drawing().shown(part, verbatim=answer.verbatim, wide=options.wide), end="")
    except BrokenPipeError:
        raise
    except OSError as error:
        return _unwritten(error)
    status = _flushed(answer.status)  # before the notes, which may go to the same file
    for note in answer.notes:
        _tell(note)
    return status


def _check_bounds(options: argparse.Namespace) -> None:
    from workloads.bounds import BOUNDS, within  # noqa: PLC0415 - only where a command runs

    for name in (name for name in BOUNDS if name.startswith("--")):
        if (value := getattr(options, name[2:].replace("-", "_"), None)) is not None:
            within(name, value)


def _streams() -> bool:
    """Make the standard streams writable; return whether there is a standard output.

    /dev/null replaces a closed stream: otherwise the next opened file, for example a store, would get its
    number, and the output of libraries.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # takes the lowest free number
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names can be written in any encoding
    for size in ("COLUMNS", "LINES"):
        if not re.fullmatch(r"[1-9][0-9]{0,4}", os.environ.get(size, "1")):
            del os.environ[size]
    return sys.stdout is not None


def _flushed(status: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon(sys.stdout)
        return FAILED
    except OSError as error:
        return _unwritten(error)
    return status


def _interrupted(message: str) -> int:
    _complain(message)
    try:
        sys.stdout.flush()
    except OSError:  # otherwise Python would end with another status
        _abandon(sys.stdout)
    return INTERRUPTED


def _unwritten(error: OSError) -> int:
    _abandon(sys.stdout)
    _complain(f"cannot write the results to standard output: {error.strerror}; the records are safe")
    return FAILED


def _abandon(stream: TextIO) -> None:
    """Redirect a stream that cannot be written to /dev/null, so that its buffer causes no further error."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Bearing:
    """Standard error; what cannot be written goes to /dev/null, else Python would end with another status."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            _abandon(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            _abandon(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@cache
def _drawing() -> ModuleType:
    """What draws parts of reports, loaded at its first use: with rich, or plainly where that is missing."""
    return importlib.import_module(f"harness.report.{'terminal' if find_spec('rich') else 'plain'}")


class _LateWatcher(AbstractContextManager["_LateWatcher"]):
    """The watcher of a terminal or a log, made at its first use: what draws is slow to load."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    # Methods, so that one that is only passed on makes no watcher.

    def progress(self, progress: Any) -> None:
        self._watcher.progress(progress)

    def row_status(self, status: Any) -> None:
        self._watcher.row_status(status)

    def note(self, text: str) -> None:
        self._watcher.note(text)

    def warn(self, text: str) -> None:
        self._watcher.warn(text)

    @cached_property
    def _watcher(self) -> Any:
        stream = sys.stderr and cast(TextIO, _Bearing(sys.stderr))
        if stream and stream.isatty() and find_spec("rich"):
            from rich.console import Console  # noqa: PLC0415 - slow to load

            from harness.report.progress import BarWatcher  # noqa: PLC0415

            return self._stack.enter_context(BarWatcher(Console(file=stream, highlight=False)))
        from harness.report.plain import PlainWatcher  # noqa: PLC0415

        return self._stack.enter_context(PlainWatcher(stream))


def _complain(message: str) -> None:
    _tell(f"lockstep: {message}")


def _tell(line: str) -> None:
    """A line on stderr, if there is one."""
    if sys.stderr is not None:
        error = _Bearing(sys.stderr)
        error.write(f"{line}\n")
        error.flush()


@contextmanager
def _interruptible() -> Iterator[None]:
    """Turn the first ending signal into KeyboardInterrupt, and ignore further ones while we clean up.

    If the signal arrives in a finalizer or a callback, Python swallows the exception; then it comes again.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for other in ENDING_SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    def swallowed(unraisable: Any) -> None:
        if unraisable.exc_type is KeyboardInterrupt:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_S)
        else:
            sys.__unraisablehook__(unraisable)

    before = {number: signal.getsignal(number) for number in (*ENDING_SIGNALS, signal.SIGALRM)}
    hook = sys.unraisablehook
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, interrupt)
        sys.unraisablehook = swallowed
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    end_quietly_when_interrupted()
    sys.exit(main())
