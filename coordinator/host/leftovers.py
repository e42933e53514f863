"""Finding leftovers: runs whose driver has certainly ended.

The lock of a run's directory shows whether its driver lives. If the directory lies in another mount
namespace, as in a container or a job with its own /tmp, we look at it through the run's
processes. If the directory is gone, the processes name the run's keeper.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.host import identity, processes
from coordinator.host.rundir import RUN_ID, RunDirectory
from coordinator.host.runs_home import home, locked_home

UNSEEN = (
    "of its processes, because neither its directory nor its driver is visible from here; "
    "run lockstep clean where the run is, or with --all"
)


@dataclass
class _FoundRun:
    """A run: its directory, if known, and the keeper that each of its processes names."""

    directory: RunDirectory | None = None
    keepers: list[str] = field(default_factory=list)

    @property
    def in_use(self) -> bool | None:
        """Whether its driver is alive; None if it cannot be known."""
        if self.directory is not None:
            return self.directory.in_use()
        verdicts = {identity.lives(name) for name in self.keepers}
        return True if True in verdicts else False if False in verdicts else None


@contextmanager
def leftovers(everything: bool) -> Iterator[tuple[list[RunDirectory], list[str]]]:
    """The directories of runs to release, and a sentence about each run whose state is unknown.

    With ``everything``, the directories of all runs, also of runs in progress.
    """
    found, unknown = [], []
    with ExitStack() as stack:
        with locked_home() as parent:
            for name, run in _runs(parent, stack).items():
                in_use = run.in_use
                if everything or in_use is False:
                    found.append(run.directory or RunDirectory(home() / name))
                elif in_use is None:
                    unknown.append(f"run {name}: left alone {len(run.keepers)} {UNSEEN}")
        yield found, unknown


def _runs(parent: Path, stack: ExitStack) -> dict[str, _FoundRun]:
    """All runs of this user that have a directory in ``parent``, or a process."""
    found = map(RunDirectory, parent.iterdir())
    runs = {directory.run: _FoundRun(directory) for directory in found if directory.ours}
    for pid, variables in processes.marked().items():
        name = variables[processes.RUN]
        if not RUN_ID.fullmatch(name):
            continue
        run = runs.setdefault(name, _FoundRun())
        run.keepers.append(variables.get(processes.KEEPER, ""))
        # A process names its directory, which may lie under another runtime directory.
        named = RunDirectory(Path(variables.get(processes.DIRECTORY, "")))
        if run.directory is None and named.run == name:
            with suppress(OSError):
                run.directory = named if named.ours else stack.enter_context(named.seen_by(pid))
    return runs
