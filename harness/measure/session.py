"""A session of runs: the host now and its turn there, the tools, the store."""

from __future__ import annotations

import os
import secrets
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from coordinator.host.launch import LaunchError, TooLongError
from coordinator.host.processor_claims import Reservation, Rival
from coordinator.workload import Node
from harness.measure import calibrate, likeness, trust
from harness.measure.calibrate import Measurement, Probe, ProbeBetween, RunWorkload
from harness.simulator import cache
from harness.spec.experiment import usable_processors
from harness.store import conditions, records
from harness.store.conditions import Conditions, Moment
from harness.store.database import Store
from harness.store.records import Calibration

COMPILING = "compiling the simulator, once for this version"


class OverloadedError(LaunchError):
    """A host is too busy to be calibrated."""


@dataclass(frozen=True)
class Tools:
    """The tools for the real work; tests replace them by fakes."""

    launcher: str
    probe: Probe
    run_workload: RunWorkload
    probe_between: ProbeBetween | None = None
    # What on some processors of this host disturbs measurements now.
    disturbances: Callable[[Sequence[int]], Iterable[str]] = lambda processors: ()
    reserve: Callable[..., AbstractContextManager[None]] = lambda processors, watcher, no_wait: nullcontext()


@dataclass(frozen=True)
class Progress:
    """The progress of a long piece of work: ``done`` of ``total`` runs; a time left of None is unknown."""

    label: str
    done: int
    total: int
    elapsed_s: float
    left_s: float | None


@dataclass(frozen=True)
class RowStatus:
    """The workload slowdown of a row so far."""

    row: str
    median: float | None
    interval: tuple[float, float] | None  # of 95 %, or of two repeats from the minimum to the maximum
    n: int
    final: bool = False  # whether no further run of it is to come
    simulated: float | None = None  # the simulated slowdown; None before it is known


class Watcher(Protocol):
    """A listener to the progress of the work."""

    def progress(self, progress: Progress) -> None:
        """A run begins, or all are done."""

    def row_status(self, status: RowStatus) -> None:
        """A row has a new value."""

    def note(self, text: str) -> None:
        """Say the present step of the work."""

    def warn(self, text: str) -> None:
        """Something has gone wrong and the work continues."""


class Silent:
    """A watcher that passes warnings on to Python's, and discards all else."""

    def note(self, text: Any) -> None:
        pass

    progress = row_status = note

    def warn(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)


class Counted:
    """Reports to a watcher the number of completed parts and the time left."""

    def __init__(self, watcher: Watcher, label: str) -> None:
        self._watcher = watcher
        self._label = label
        self._begin_s = time.monotonic()

    def __call__(self, done: int, total: int, left_s: float | None) -> None:
        elapsed_s = time.monotonic() - self._begin_s
        self._watcher.progress(Progress(self._label, done, total, elapsed_s, left_s))


def announce_compiler(watcher: Watcher) -> None:
    """Report if the simulator's event loop must be compiled first, which takes up to a minute.

    Also why that is so each time.
    """
    if reason := cache.refusal():
        watcher.warn(reason)
    if not cache.holds("kernel.advance"):
        watcher.progress(Progress(COMPILING, 0, 1, 0.0, None))


@dataclass(frozen=True)
class MeasurementSession:
    """One invocation of Lockstep, whose name is in every record."""

    name: str
    processors: tuple[int, ...]  # core ids of this host; of several nodes numbers from 0, node by node
    tools: Tools
    store: Store
    conditions: Conditions
    nodes: tuple[Node, ...] = ()

    @classmethod
    def begin(
        cls, processors: tuple[int, ...], tools: Tools, store: Store, nodes: tuple[Node, ...] = ()
    ) -> MeasurementSession:
        here = conditions.of_session(processors, tools.launcher)
        if nodes:
            processors = tuple(range(sum(node.processors for node in nodes)))
            names = [f"{node.host}:{node.processors}" for node in nodes]
            here = replace(here, processors=list(processors), nodes=names)
        return cls(session_name(), processors, tools, store, here, nodes)

    def reserved(self, watcher: Watcher, *, no_wait: bool) -> AbstractContextManager[None]:
        """A context in which no other Lockstep of this host measures here; it waits on one host only."""
        if self.nodes:
            return nullcontext()
        return self.tools.reserve(sorted({*self.processors, *self._calibrated}), watcher, no_wait)

    def warn_of_disturbances(self, watcher: Watcher) -> None:
        """Say what disturbs measurements on this host, before they begin; says nothing of other hosts."""
        if not self.nodes:
            watcher.note("watching the processors")
            for disturbance in self.tools.disturbances(self.processors):
                watcher.warn(disturbance)

    def calibrate(
        self,
        working_sets: Collection[int],
        mechanisms: Collection[str],
        watcher: Watcher,
        *,
        again: bool = False,
    ) -> list[Calibration]:
        """Measure and store the constants, ``again`` after others of this session; empty on one processor.

        Under load, and if its samples contradict each other, it repeats that up to ``trust.AGAIN`` times,
        until one is steady or two in a row agree.

        Raises:
            OverloadedError: if the host is too busy for it.
            LaunchError: if a program of it fails, or if ``again`` nothing could be measured of a mechanism.
        """
        if len(self._calibrated) < 2:
            watcher.warn(
                "not calibrated: a calibration needs two processors; waiting rules use nominal constants"
            )
            return []
        calibrations: list[Calibration] = []
        for repetition in range(1 + trust.AGAIN):
            reason = f", again: {trust.unsteady(calibrations)}" if repetition else ""
            watcher.note(f"calibrating: messages, context switches, OS noise, slot switches{reason}")
            before = calibrations
            calibrations = self._calibration(working_sets, mechanisms)
            seen = {one.quantity.split()[-1] for one in calibrations}
            if again and (lost := sorted(set(mechanisms) - seen)):
                raise LaunchError(f"no slots could be measured with {', '.join(lost)}")
            if before and trust.unsteady(calibrations) and likeness.agree(before, calibrations):
                calibrations = [
                    replace(one, conditions=replace(one.conditions, agrees=True)) for one in calibrations
                ]
            self.store.add_calibrations(calibrations)
            if not trust.unsteady(calibrations):
                break
        return calibrations

    def _calibration(self, working_sets: Collection[int], mechanisms: Collection[str]) -> list[Calibration]:
        processors = self._calibrated
        before = Moment.now(processors)
        try:
            measured = list(self._measure(processors, working_sets, mechanisms))
        except TooLongError as error:
            raise OverloadedError(f"calibration needs an idle host: {error}") from None
        during = conditions.of_run(self.conditions, before, Moment.now(processors))
        now = records.now()
        return [
            Calibration(
                session=self.name,
                recorded_at=now,
                quantity=quantity,
                samples=samples,
                processors=processors,
                working_set_bytes=working_set_bytes,
                launcher=self.tools.launcher,
                conditions=replace(during, processors=list(processors)),
            )
            for quantity, samples, working_set_bytes in measured
        ]

    @property
    def _calibrated(self) -> tuple[int, ...]:
        """The processors of this host that a calibration uses: two, if this process may use as many."""
        alone = len(self.processors) < 2 or self.nodes
        return (usable_processors() if alone else self.processors)[:2]

    def _measure(
        self, processors: Sequence[int], working_sets: Iterable[int], mechanisms: Iterable[str]
    ) -> Iterator[Measurement]:
        """All constants of this host; with several nodes, the costs of messages between two of them."""
        between = self.tools.probe_between() if self.tools.probe_between else {}
        yield from (Measurement(quantity, samples) for quantity, samples in between.items())
        for size in sorted(set(working_sets)) or [0]:
            for quantity, samples in self.tools.probe(processors[:2], size).items():
                if quantity not in between:
                    yield Measurement(quantity, samples, size)
        for mechanism in mechanisms:
            quantities = calibrate.of_slots(self.tools.run_workload, processors, mechanism)
            yield from (
                Measurement(f"{quantity} {mechanism}", quantities[quantity]) for quantity in quantities
            )
        yield from calibrate.kernel(processors[0])


def session_name() -> str:
    """A new name for an invocation of Lockstep: the time and a random number."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(3)}"


LOOK_S = 0.1  # time from one look at the processors to the next


@contextmanager
def reserved(
    processors: Sequence[int],
    watcher: Watcher,
    no_wait: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Iterator[None]:
    """A context in which no other series of runs begins on these processors, of any user of this host.

    It waits for those that use them now, but with ``no_wait``, and in a job of Slurm, only warns of them: a
    batch job must not spend its time waiting, and what it waits for may be suspended for its sake.
    """
    slurm = "SLURM_JOB_ID" in environment
    ours = Reservation(processors)
    reported: list[Rival] = []
    try:
        while others := ours.take(no_wait=no_wait or slurm):
            if no_wait or slurm:
                reason = "" if no_wait else ", and a job of Slurm does not wait"
                watcher.warn(f"Lockstep: {_words(others)}, so the runs disturb each other{reason}")
                break
            if others != reported:
                watcher.warn(f"waiting: {_words(others)} (--no-wait does not wait)")
                watcher.note("waiting")
                reported = others
            time.sleep(LOOK_S)
        yield
    finally:
        ours.close()


def _words(rivals: Sequence[Rival]) -> str:
    return "; ".join(f"{rival.name} measures on processors {rival.processors}" for rival in rivals)
