"""Recordings of commands in runs of the kind RECORDED, for ``record = true`` of a command."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from socket import gethostname
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from coordinator.host.directories import DirectoryGuardian
from coordinator.workload import ParallelJob, Result
from harness.measure.plan import Task
from harness.measure.session import MeasurementSession
from harness.store.records import RECORDED
from workloads.late import Late
from workloads.validation import refused
from workloads.work import Work

if TYPE_CHECKING:
    from harness.store import recording
else:
    recording = Late("harness.store.recording")


@dataclass
class Kept:
    """The recording of a run, of its ``command``; None if it is not recorded."""

    command: Work | None = None
    files: Path = Path()  # the directory in which its ranks leave their files
    place: Path = Path()  # the file that the recording gets
    path: str = ""  # that file once it is there, below the directory for records; else empty
    # End of the recording, since the start of the run; None if that is not known.
    until_ns: int | None = None

    def jobs(self, jobs: tuple[ParallelJob, ...]) -> tuple[ParallelJob, ...]:
        if self.command is None:
            return jobs
        return tuple(replace(job, recording=str(self.files)) for job in jobs)

    @property
    def conditions(self) -> dict[str, Any]:
        until = {} if self.until_ns is None else {"recorded_until_ns": self.until_ns}
        return {"recording": self.path} | until if self.path else {}

    def keep(self, result: Result) -> Result:
        """Keep what ranks have left; returns the result of the run, with a warning of what is missing."""
        if self.command is None or result.failure:
            return result
        try:
            recordings = recording.gather(self.files, self.command.argv)
            if recordings:
                recording.write(recordings[0], self.place)
                self.path = f"{recording.FOLDER}/{self.place.name}"
                # The clocks of other hosts are not the driver's.
                if result.origin_ns is not None and {one.host for one in recordings[0].ranks} == {
                    gethostname()
                }:
                    self.until_ns = max(one.finish_ns for one in recordings[0].ranks) - result.origin_ns
                warning = recordings[0].lacks
            else:
                name = self.command.argv[0]
                reason = "it uses another MPI than its launcher's, or none"
                warning = f"{name} left no recording: {reason}"
        except recording.RecordingError as error:
            warning = str(error)
        return replace(result, warnings=(*result.warnings, *([warning] if warning else [])))


@contextmanager
def of(task: Task, session: MeasurementSession) -> Iterator[Kept]:
    """The recording of a task, if that is its kind."""
    job = task.jobs[0]
    if task.kind != RECORDED:
        yield Kept()
        return
    folder = session.store.path.resolve().parent / recording.FOLDER
    words = [Path(job.program.argv[0]).name, session.name, task.cell.index, job.number, task.repeat]
    words += [] if task.scheduler.options.waiting == "spin" else ["two-phase"]
    with rank_files("--results", folder) as files:
        yield Kept(job.program, files, folder / ("-".join(map(str, words)) + ".npz"))


@contextmanager
def rank_files(option: str, folder: Path) -> Iterator[Path]:
    """A directory below ``folder`` for the files of ranks; nothing of it is left, also if we are killed."""
    with refused(option, folder, "cannot be written", "name a directory that you can write to"):
        folder.mkdir(parents=True, exist_ok=True)
        outer = Path(mkdtemp(prefix=".recording-", dir=folder))
    files = outer / "files"  # the directory guardian removes the directory above, too, if it is empty
    try:
        with DirectoryGuardian(files):
            files.mkdir()
            yield files
            shutil.rmtree(outer, ignore_errors=True)
    finally:
        shutil.rmtree(outer, ignore_errors=True)
