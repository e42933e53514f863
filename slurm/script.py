"""Batch scripts: rendered from plain values, nothing read and nothing run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from slurm.quoting import TASK, Word, option, pattern, word

__all__ = ["TASK", "Script", "Word", "status_file", "word"]

JOB_PATTERN, TASK_PATTERN = "%j", "%A_%a"
"""Slurm's patterns in names of files for the id of a job, and of a task of an array."""


@dataclass(frozen=True)
class Script:
    """A batch script.

    Attributes:
        name: of the job.
        directory: where logs and exit statuses are written, absolute.
        command: words of the command to run; TASK in a word stands for the task's number.
        options: ``#SBATCH`` options by Slurm's names without their dashes; a value of True
            stands for an option without value, False and None for one that is left out.
        extra: further lines of options, as they stand.
        setup: lines of shell to run first, as they stand.
        signal_s: seconds before its time limit at which the job gets the signal to end.
        requeue: whether a job that reaches its time limit goes back into the queue.
        resume: whether the first start gets --resume, as every start after a requeue does; None for a
            command that has no such option.
        tasks: their number in a job array; None for a single job.
    """

    name: str
    directory: str
    command: Sequence[Word]
    options: Mapping[str, str | int | bool | None] = field(default_factory=dict)
    extra: Sequence[str] = ()
    setup: Sequence[str] = ()
    signal_s: int = 60
    requeue: bool = False
    resume: bool | None = None
    tasks: int | None = None

    def __post_init__(self) -> None:
        pattern(self.directory)

    @property
    def directives(self) -> list[str]:
        """The options of the ``#SBATCH`` lines, in order."""
        file = JOB_PATTERN if self.tasks is None else TASK_PATTERN
        made: dict[str, str | int | bool | None] = {
            "job-name": self.name,
            "output": f"{pattern(self.directory)}/{file}.log",
            "open-mode": "append",
            "signal": f"B:USR1@{self.signal_s}",
            "requeue" if self.requeue else "no-requeue": True,
            "array": None if self.tasks is None else f"1-{self.tasks}",
        }
        chosen = {**made, **self.options}
        lines = [
            f"--{name}" if value is True else f"--{name}={option(str(value))}"
            for name, value in chosen.items()
            if value is not None and value is not False
        ]
        return [*lines, *self.extra]

    @property
    def text(self) -> str:
        import jinja2  # noqa: PLC0415 - most commands write no script

        source = (resources.files("slurm") / "experiment.sbatch.in").read_text(encoding="utf-8")
        environment = jinja2.Environment(
            undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
        )
        return environment.from_string(source).render(
            name=self.name,
            directives=self.directives,
            setup=self.setup,
            directory=word(self.directory),
            command=_lines(self.command),
            requeue=self.requeue,
            resume=self.resume,
        )


def _lines(command: Sequence[Word]) -> str:
    """The words of a command, each option on a line of its own."""
    text = " ".join(word(first) for first in command[:1])
    for part in command[1:]:
        text += (" \\\n    " if str(part).startswith("--") else " ") + word(part)
    return text


def status_file(directory: str, job: str) -> str:
    """The file into which the script of a job, or of a task of an array, writes the end of its command.

    It holds the exit status and, if the time of the job was up, ``time-limit``.
    """
    return f"{directory}/{job}.status"
