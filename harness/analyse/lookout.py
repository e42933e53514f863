"""Looks after the ranks of a command: reports on stuck jobs, and says when the command has to end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.measure.rank_watch import RankWatch
from workloads.validation import InputError

if TYPE_CHECKING:
    from harness.analyse.missing_rank import Report

GLANCE_S = 0.2

SECONDS = re.compile(r"\d+")


@dataclass(frozen=True)
class Patience:
    """For how long a rank may wait while no rank works for it, before its job is reported, and ended."""

    seconds: float
    only_report: bool = False

    @classmethod
    def parsed(cls, text: str) -> Patience:
        """SECONDS, or SECONDS:report. Raises InputError."""
        number, colon, word = text.partition(":")
        try:
            seconds = float(number)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf") or (colon and word != "report"):
            rule = 'must be a number of seconds above 0, or that with ":report"'
            raise InputError("--stuck", text, rule, "write 60, or 60:report")
        return cls(seconds, bool(colon))


@dataclass
class Lookout:
    """Watches ranks until their command ends.

    ``tell`` gets each report as text. With a ``patience`` that does more than report, a stuck job ends the
    command; with ``timeout_s`` the time since ``begin_s`` does.
    """

    watch: RankWatch
    tell: Callable[[str], None]
    begin_s: float
    patience: Patience | None = None
    timeout_s: float | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    """The reports so far, as documents."""

    _states: set[str] = field(default_factory=set)  # of stuck jobs that were reported

    def look(self, now_s: float) -> bool:
        """Sample the ranks, and report on a job that has become stuck; whether the command has to end."""
        self.watch.sample(now_s)
        if self.timeout_s is not None and now_s - self.begin_s >= self.timeout_s:
            self.report(f"the command has not ended within {self.timeout_s:g} s, and is ended:")
            return True
        if self.patience is None or self.watch.longest_idle_s() < self.patience.seconds:
            return False
        from harness.analyse.missing_rank import Stuck  # noqa: PLC0415 - rarely needed

        stuck = [one for one in map(Stuck, self.watch.jobs()) if one.since(self.patience.seconds)]
        new = [one for one in stuck if SECONDS.sub("", "".join(one.report().lines)) not in self._states]
        for one in new:
            report = one.report()
            self._states.add(SECONDS.sub("", "".join(report.lines)))
            end = "" if self.patience.only_report else "; the command is ended"
            self._say(f"no progress for {self.patience.seconds:g} s{end}:", report)
        return bool(stuck) and not self.patience.only_report

    def report(self, headline: str) -> None:
        """Report on all jobs that run now. It takes GLANCE_S, in which ranks that work show it."""
        self.watch.sample(time.monotonic())
        time.sleep(GLANCE_S)
        self.watch.sample(time.monotonic())
        from harness.analyse.missing_rank import Stuck  # noqa: PLC0415 - rarely needed

        jobs = self.watch.jobs()
        if not jobs:
            self.tell(f"{headline.rstrip(':')}; no rank of an MPI program has come")
        for one in jobs:
            self._say(headline, Stuck(one).report())

    def _say(self, headline: str, report: Report) -> None:
        self.reports.append({"headline": headline.rstrip(":"), **report.document})
        self.tell("\n".join([headline, *(f"  {line}" for line in report.lines), f"  {report.verdict}"]))
