"""Looks after the ranks of a command: reports on stuck jobs, and says when the command has to end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from harness.measure.rank_sight import ANSWER_S
from harness.measure.rank_watch import RankWatch
from workloads.validation import InputError

if TYPE_CHECKING:
    from harness.analyse.rank_report import Reader, Report
    from harness.measure.spreader import Spreader

T = TypeVar("T")

GLANCE_S = 0.2
PAUSE_S, BRIEF_PAUSE_S = 0.5, 0.1
"""Between two looks; the brief one while a report waits for answers."""

MOST_WAIT_S = ANSWER_S + 1.0
"""How long a report waits for answers at most."""

SHARE = 0.05
"""Most share of a processor that looks for stuck jobs may use while a rank waits for long and others work."""

PASSING = re.compile(r"for \d+ s|\d+ %")
"""What differs in the lines of a state that lasts."""


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
            raise InputError(
                "--stuck",
                text,
                'must be a number of seconds above 0, or that with ":report"',
                "write 60, or 60:report",
            )
        return cls(seconds, bool(colon))


@dataclass(frozen=True)
class Fault:
    """Why a command was, or would be, ended: in one sentence, and with the reports on its jobs."""

    verdict: str
    text: str


@dataclass
class Lookout:
    """Watches ranks until their command ends.

    ``tell`` gets each report as text, and ``save`` all reports as documents, whenever there is a new one.
    ``read_stacks`` reads where in their program ranks are. ``fault`` is the last job that was stuck, or that
    the command has taken too long.
    With a ``patience`` that does more than report, a stuck job stops the command, but not if some of its
    ranks have not come or do not answer; with ``timeout_s`` the time since ``begin_s`` does. ``spreader``
    looks as often.
    """

    watch: RankWatch
    tell: Callable[[str], None]
    begin_s: float
    patience: Patience | None = None
    timeout_s: float | None = None
    save: Callable[[list[dict[str, Any]]], None] = lambda reports: None
    spreader: Spreader | None = None
    read_stacks: Reader | None = None
    reports: list[dict[str, Any]] = field(default_factory=list)
    fault: Fault | None = None

    _states: set[str] = field(default_factory=set)  # of stuck jobs that were reported
    _due_s: float = 0.0  # when ranks may be asked again whether they are stuck
    _cpu_s: float = 0.0  # our CPU time when they were asked
    _asked_s: float | None = None  # when the ranks were asked what they note, if that is to be reported
    _headlines: list[str] = field(default_factory=list)  # of reports that are wanted
    _is_over: bool = False  # the time of the command
    _is_unsaved: bool = False  # the last reports could not be saved, and that was told

    def look(self, now_s: float) -> bool:
        """Sample the ranks, and report on a job that has become stuck; whether the command has to end."""
        self.watch.sample(now_s)
        if self.spreader is not None:
            self._safely(self.spreader.look, now_s)
        if self.timeout_s is not None and not self._is_over and now_s - self.begin_s >= self.timeout_s:
            self._is_over = True
            headline = f"the command has not ended within {self.timeout_s:g} s, and is ended:"
            self.fault = Fault(headline.rstrip(":"), headline)
            self.ask(headline, now_s)
        waits = self.patience is not None and self.watch.longest_idle_s() >= self.patience.seconds
        if self._asked_s is None and waits and now_s >= self._due_s:
            self._ask(now_s)
        if self._asked_s is None:
            return False
        if now_s - self._asked_s < MOST_WAIT_S and not self.watch.have_answered():
            return False
        if self._headlines and now_s - self._asked_s < GLANCE_S:
            return False
        self._asked_s = None
        ends = self._answered()
        self._due_s = now_s + (time.thread_time() - self._cpu_s) / SHARE
        return ends

    @property
    def pause_s(self) -> float:
        """When to look again."""
        return PAUSE_S if self._asked_s is None else BRIEF_PAUSE_S

    def ask(self, headline: str, now_s: float) -> None:
        """Report on all jobs that run now, at a look not before GLANCE_S: by then ranks that work show it."""
        self._headlines.append(headline)
        self._ask(now_s)

    def finish(self) -> None:
        """The command has ended: report what is still to be reported by what is known.

        No stacks are read: other processes may have the numbers of its ranks now.
        """
        self.read_stacks = None
        self._report_all()

    def _ask(self, now_s: float) -> None:
        """Ask the ranks; a report that waits for answers does not wait longer for that."""
        self.watch.ask()
        if self._asked_s is None:
            self._asked_s = now_s
            self._cpu_s = time.thread_time()

    def _answered(self) -> bool:
        """Report by the answers of the ranks; whether the command has to end."""
        self._report_all()
        if self._is_over:
            return True
        return self.patience is not None and bool(self._safely(self._examine, self.patience))

    def _report_all(self) -> None:
        headlines = self._headlines
        self._headlines = []
        for headline in headlines:
            said = self._safely(self._report, headline)
            if self._is_over:
                self.fault = said or self.fault

    def _safely(self, do: Callable[[Any], T], given: object) -> T | None:
        """Whatever ranks have noted, the command does not suffer from it."""
        try:
            return do(given)
        except Exception as error:
            self.tell(f"the ranks cannot be looked after: {type(error).__name__}: {error}")
            self.patience = self.spreader = None
            return None

    def _examine(self, patience: Patience) -> bool:
        from harness.analyse.missing_rank import examined  # noqa: PLC0415 - rarely needed

        stuck = [one for one in examined(self.watch.jobs()) if one.since(patience.seconds)]
        ends = any(one.whole for one in stuck) and not patience.only_report
        end = "; the command is ended" if ends else ""
        reports = [report for one in stuck if self._is_new(report := one.report())]
        if reports:
            self.fault = self._say(f"no progress for {patience.seconds:g} s{end}:", reports)
        return ends

    def _is_new(self, report: Report) -> bool:
        """Whether no job has been reported in this state."""
        before = len(self._states)
        self._states.add(PASSING.sub("", "".join(report.lines)) + str(report.pids))
        return len(self._states) > before

    def _report(self, headline: str) -> Fault:
        from harness.analyse.missing_rank import examined  # noqa: PLC0415 - rarely needed

        if jobs := examined(self.watch.jobs()):
            return self._say(headline, [one.report() for one in jobs])
        text = f"{headline.rstrip(':')}; no rank of an MPI program has come"
        self.tell(text)
        return Fault(text, text)

    def _say(self, headline: str, reports: Sequence[Report]) -> Fault:
        from harness.analyse.rank_report import NO_CONCLUSION, with_stacks  # noqa: PLC0415 - rarely needed

        if self.read_stacks is not None:
            reports = with_stacks(reports, self.read_stacks)
        texts = []
        for one in reports:
            self.reports.append({"headline": headline.rstrip(":"), **one.document})
            texts.append("\n".join([headline, *(f"  {line}" for line in one.lines), f"  {one.verdict}"]))
            self.tell(texts[-1])
        self._save_reports()
        verdicts = dict.fromkeys(one.verdict for one in reports if one.verdict != NO_CONCLUSION)
        return Fault("; ".join(verdicts) or headline.rstrip(":"), "\n".join(texts))

    def _save_reports(self) -> None:
        """Save the reports; that they cannot be saved is told once, and ends nothing."""
        try:
            self.save(self.reports)
        except (InputError, OSError) as error:
            if not self._is_unsaved:
                self.tell(str(error))
            self._is_unsaved = True
