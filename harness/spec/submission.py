"""The [slurm] table: how to submit an experiment to Slurm."""

import argparse
import dataclasses
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from harness.spec.table_checks import Table, as_table, field_names
from slurm import partition
from slurm.script import Script, Word, word
from workloads.bounds import PROCESSES, within
from workloads.parameters import Bounds, Checked
from workloads.validation import InputError, known_keys, under, whole

TEXTS = {
    "partition": "run in this partition",
    "account": "charge this account",
    "qos": "ask for this quality of service",
    "time": "limit the time, in minutes or in another form of sbatch",
    "constraint": "require these features of the nodes",
    "mem": "ask for this memory of each node, in MB or with a unit (4G)",
    "nodelist": "run on these nodes",
}
"""Options of sbatch that are passed on unchanged, with their help."""

LINES = ("extra", "modules", "setup")  # keys that hold lists of lines


@dataclass(frozen=True)
class Submission(Checked):
    """The [slurm] table. Options have sbatch's names, with ``_`` for ``-``."""

    nodes: Annotated[int, PROCESSES] = 1
    # Processors to use on each node; None divides the experiment's evenly.
    ntasks_per_node: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = None
    constraint: str | None = None
    mem: str | None = None
    nodelist: str | None = None
    exclusive: bool = False  # whether no other job may run on the nodes
    extra: tuple[str, ...] = ()  # further options for ``#SBATCH`` lines, as they stand
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()  # lines of shell to run before Lockstep starts
    container: str = ""  # the words before Lockstep in a command that runs it in a container
    requeue: bool = False  # whether a job that reaches its time limit goes back into the queue
    signal_s: Annotated[int, Bounds(1, 65_535)] = 60  # seconds before the time limit at which the run ends

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ntasks_per_node is not None:
            within("slurm.ntasks-per-node", self.ntasks_per_node)
        for name in (*TEXTS, *LINES):
            value = getattr(self, name)
            for line in value if name in LINES else [value] if value is not None else ():
                _line(name, line)
        if self.container != "":
            _line("container", self.container)
            self.started([], [])
        for line in self.extra:
            sbatch_option("extra", line)
        self._check_time()

    def _check_time(self) -> None:
        limit = self.asked("--time", "-t") or self.time
        if limit is None:
            return
        try:
            limit_s = partition.seconds(limit.strip())
        except ValueError:
            raise InputError(
                "time",
                limit,
                "must be a time limit of sbatch",
                "write minutes, hours:minutes:seconds or days-hours",
            ) from None
        if limit_s is not None and limit_s <= self.signal_s:
            raise InputError(
                "time",
                limit,
                f"must be more than {self.signal_s} s, as the signal to end comes so long before (signal_s)",
                "give more time, or write a smaller slurm.signal_s",
            )

    def asked(self, *names: str) -> str | None:
        """The value of an option among the further ones, as sbatch takes it: the last one counts."""
        parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
        parser.add_argument(*names, dest="asked")
        try:
            words = [word for line in self.extra for word in shlex.split(line, comments=True)]
            asked: str | None = parser.parse_known_args(words)[0].asked
        except (argparse.ArgumentError, ValueError):
            return None  # sbatch tells what is wrong
        return asked

    @property
    def place(self) -> tuple[str, ...]:
        """The options that name the cluster of the jobs to Slurm's commands; none for the usual one."""
        cluster = self.asked("--clusters", "-M") or os.environ.get("SBATCH_CLUSTERS")
        return ("-M", cluster) if cluster else ()

    def spread(self, processors: int) -> Self:
        """A copy with the number of processors on each node; the experiment wants so many, 0 for all."""
        if self.ntasks_per_node is not None:
            return self
        if not processors:
            raise InputError(
                "ntasks-per-node",
                None,
                "Slurm needs a number, and the experiment uses all processors",
                "write --ntasks-per-node 2, or processors = 2",
            )
        if processors % self.nodes:
            raise InputError(
                "nodes", self.nodes, f"cannot divide {processors} processors evenly", "give --ntasks-per-node"
            )
        return dataclasses.replace(self, ntasks_per_node=processors // self.nodes)

    def check_one_node(self) -> None:
        """Refuse several nodes for programs that only this host runs."""
        if self.nodes > 1:
            raise InputError(
                "slurm.nodes",
                self.nodes,
                "must be 1 for programs with settings, which run as their users start them",
                "leave it out",
            )

    @property
    def processors(self) -> int:
        return self.nodes * (self.ntasks_per_node or 1)

    @property
    def alone(self) -> Self:
        return dataclasses.replace(self, nodes=1, ntasks_per_node=1, exclusive=False, requeue=False)

    def started(self, inside: Sequence[str], outside: Sequence[str]) -> list[str]:
        """The words that start ``inside`` in the container; ``outside`` if there is none."""
        try:
            return [*shlex.split(self.container), *inside] if self.container else list(outside)
        except ValueError as error:
            raise InputError(
                "container", self.container, f"must be a command: {str(error).lower()}", "close its quotes"
            ) from None

    def script(self, name: str, folder: Path, command: Sequence[Word], **more: Any) -> Script:
        """The batch script of a command; ``resume`` and ``tasks`` as in ``slurm.script.Script``."""
        directives = {
            "nodes": self.nodes,
            "ntasks-per-node": self.ntasks_per_node,
            "exclusive": self.exclusive,
        }
        return self._script(name, folder, command, directives, requeue=self.requeue, **more)

    def of_job(
        self, name: str, folder: Path, command: Sequence[Word], processes: int, minutes: int
    ) -> Script:
        """The batch script of a command that is one job, with a limit of whole ``minutes``.

        Slurm chooses the nodes of its processes, and gives no signal ahead of the limit.
        """
        limited = dataclasses.replace(self, time=str(minutes), signal_s=1)
        return limited._script(name, folder, command, {"ntasks": processes, "signal": None})

    def _script(
        self, name: str, folder: Path, command: Sequence[Word], directives: dict[str, Any], **more: Any
    ) -> Script:
        loads = (" ".join(map(word, ["module", "load", *module.split()])) for module in self.modules)
        try:
            return Script(
                name=name,
                directory=str(folder),
                command=command,
                options=directives | {name: getattr(self, name) for name in TEXTS},
                extra=self.extra,
                setup=[*loads, *self.setup],
                signal_s=self.signal_s,
                **more,
            )
        except ValueError as error:
            raise InputError("--results", str(folder), str(error), "choose another directory") from None


def parse(value: Any, options: Sequence[str] = ()) -> Submission:
    table = as_table(value, "slurm")
    names = [name.replace("ntasks_per_node", "ntasks-per-node") for name in field_names(Submission)]
    known_keys(table, names, "slurm")
    with under("slurm"):
        fields = _fields(table)
        return Submission(**fields | {"extra": (*fields.get("extra", ()), *options)})


def _fields(table: Table) -> dict[str, Any]:
    fields = {key.replace("-", "_"): value for key, value in table.items()}
    for name in set(LINES) & fields.keys():
        if not isinstance(fields[name], list):
            raise InputError(name, fields[name], "must be a list of lines", 'write ["first", "second"]')
        fields[name] = tuple(fields[name])
    for name in ("time", "mem"):  # sbatch reads numbers as minutes and megabytes
        if isinstance(fields.get(name), int) and not isinstance(fields[name], bool):
            whole(name, fields[name], minimum=0, maximum=2**31 - 1)
            fields[name] = str(fields[name])
    return fields


def sbatch_option(key: str, line: Any) -> None:
    _line(key, line)
    if not line.startswith("-"):
        raise InputError(key, line, "must be an option of sbatch", 'write "--option=value"')


def _line(key: str, value: Any) -> None:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InputError(key, value, "must be one line of text", "write it in quotes")
