"""Checkpoints of a bulk-synchronous program: the number of phases that all its processes have done.

After a phase's last barrier, every process has computed the phase. So one process can write the number for
all. A program that was ended and is started again continues after these phases, with the compute times that
come then. Source: Condor's checkpoints, as in the survey; here at the end of a phase, so they have no
memory to save.
"""

from __future__ import annotations

from pathlib import Path


class Checkpoint:
    """The checkpoint of one program in a file; reads the last one.

    Attributes:
        done: phases that need not run again.

    Args:
        file: which exists if the program made a checkpoint before.
        every: phases from one checkpoint to the next.
        writes: whether this process writes them.
    """

    def __init__(self, file: Path, every: int, writes: bool) -> None:
        self._file = file
        self._every = every
        self._writes = writes
        try:
            self.done = int(file.read_text(encoding="ascii"))
        except FileNotFoundError:
            self.done = 0
        self._phases = self.done

    def after_phase(self) -> bool:
        """Note the end of a phase, write the checkpoint if it is due; return False: the program goes on."""
        self._phases += 1
        if self._writes and self._phases % self._every == 0:
            new = self._file.with_suffix(".new")
            new.write_text(str(self._phases), encoding="ascii")
            new.replace(self._file)  # a process that is killed now leaves the one before
        return False


def checkpoint_file(folder: Path, job: int) -> Path:
    """Where a job of a run leaves its checkpoint; ``folder`` is the run's."""
    return folder / f"checkpoint-{job}"
