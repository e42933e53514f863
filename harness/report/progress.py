"""Progress on a terminal: a table of rows and a bar."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from harness.analyse.columns import duration, fixed
from harness.report.cells import table
from harness.report.plain import told
from harness.report.terminal import drawn

if TYPE_CHECKING:
    from harness.measure import session


MEASURED = ("workload\nslowdown", "\ninterval", "runs\n")


class BarWatcher(AbstractContextManager["BarWatcher"]):
    """A table of the rows that have a value, and below it a bar with the current run and the time left."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}", markup=False),
            _Left(),
            TextColumn("{task.fields[detail]}", style="dim", markup=False),
            console=console,
        )
        self._task = self._bar.add_task("starting", total=None, count="", detail="", until_s=None)
        self._rows: dict[str, session.RowStatus] = {}
        self._console = console
        self._live = Live(console=console, get_renderable=self._picture, refresh_per_second=8, transient=True)

    def __enter__(self) -> BarWatcher:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # the terminal may be closed
            self._live.stop()

    def _picture(self) -> RenderableType:
        room = self._console.height - 6
        if not self._rows or room < 1:
            return self._bar
        running = self._bar.tasks[0].description
        shown = list(self._rows.values())[-room:]
        simulated = any(status.simulated is not None for status in shown)
        picture = table(["", "so far"], [*MEASURED, "simu-\nlated"] if simulated else MEASURED)
        for status in shown:
            runs = (f"{status.row}, repeat ", f"simulated {status.row}, repeat ")
            mark = ">" if running.startswith(runs) else "=" if status.final else ""
            picture.add_row(mark, *told(status), *([fixed(status.simulated)] if simulated else []))
        return Group(drawn(picture), self._bar)

    def progress(self, progress: session.Progress) -> None:
        """Move the bar to the elapsed share of the expected time; it moves to and fro if that is unknown."""
        left_s = progress.left_s
        self._bar.update(
            self._task,
            description=progress.label,
            completed=progress.elapsed_s,
            total=None if left_s is None else max(progress.elapsed_s + left_s, 1e-3),
            count=f"{progress.done}/{progress.total}",
            until_s=None if left_s is None else time.monotonic() + left_s,
            detail="",
        )

    def row_status(self, status: session.RowStatus) -> None:
        if len(self._rows) > self._console.height:  # then the table shows those that changed last
            self._rows.pop(status.row, None)
        self._rows[status.row] = status

    def note(self, text: str) -> None:
        """Show a note alongside the bar until the next one."""
        self._bar.update(self._task, detail=text)

    def warn(self, text: str) -> None:
        with suppress(OSError):
            self._console.print(
                f"warning: {text}", style="yellow", markup=False, highlight=False, soft_wrap=True
            )


class _Left(ProgressColumn):
    """The time left, counted down between reports."""

    def render(self, task: Task) -> Text:
        until_s = task.fields["until_s"]
        if until_s is None:
            return Text("")
        return Text(f"{duration(max(0.0, until_s - time.monotonic()))} left")
