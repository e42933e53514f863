"""Machine constants that the waiting rules go by, measured just before they are used."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coordinator.launch import Launcher, LaunchError, run_session
from harness import records
from harness.records import Calibration

PROBE_RANKS = 3
PROBE_TIMEOUT_S = 120.0

Probe = Callable[[Sequence[int], int], Mapping[str, list[float]]]
"""Takes two processors and a working set in bytes; gives samples by quantity, in ns."""


@dataclass(frozen=True)
class Constants:
    """Medians of a calibration.

    Attributes:
        switch_us: what a message costs more if its receiver has blocked on a busy processor:
            the context switch that waiting rules weigh their spinning against.
        handoff_us: processor time of a switch between two processes of one processor.
        latency_us: one-way latency of a message.
        step_ns: time of a step through a working set, by its size in bytes.
    """

    switch_us: float
    handoff_us: float
    latency_us: float
    step_ns: Mapping[int, float] = field(default_factory=dict)

    def unit_ns(self, working_sets: Collection[int]) -> float:
        """The step time if all programs have one working set, else 0: each rank measures its own."""
        (size, *others) = working_sets
        return 0.0 if others else self.step_ns.get(size, 0.0)


def mpi_probe(launcher: Launcher) -> Probe:
    """A probe that runs ``workloads.probe`` with this launcher.

    It raises LaunchError if the probe does not run, or says something else than samples.
    """

    def probe(processors: Sequence[int], working_set_bytes: int) -> Mapping[str, list[float]]:
        places = ",".join(map(str, processors))
        command = [sys.executable, "-m", "mpi4py", "-m", "workloads.probe", "--processors", places]
        command += ["--working-set-bytes", str(working_set_bytes)]
        said = run_session(launcher.argv(PROBE_RANKS, command), launcher.environment({}), PROBE_TIMEOUT_S)
        try:
            found: dict[str, list[float]] = json.loads(said)
        except json.JSONDecodeError:
            raise LaunchError(f"the calibration probe printed no samples: {said[:200]!r}") from None
        return found

    return probe


def calibrate(
    probe: Probe,
    processors: Sequence[int],
    working_sets: Iterable[int],
    *,
    session: str,
    launcher: str,
    conditions: Mapping[str, Any],
) -> Iterator[Calibration]:
    """Measure all constants on the first two of ``processors``.

    Yields one record per quantity and working set; all samples are kept.
    """
    for size in sorted(set(working_sets)) or [0]:
        for quantity, samples in probe(processors[:2], size).items():
            yield Calibration(
                session=session,
                recorded_at=records.now(),
                quantity=quantity,
                samples=samples,
                processors=processors[:2],
                working_set_bytes=size,
                launcher=launcher,
                conditions=conditions,
            )


def constants(calibrations: Iterable[Calibration]) -> Constants:
    """The medians that a run goes by; a switch or a message never costs less than nothing."""
    found = list(calibrations)

    def median_us(quantity: str) -> float:
        samples = [
            s for calibration in found if calibration.quantity == quantity for s in calibration.samples
        ]
        return max(0.0, statistics.median(samples)) / 1e3

    return Constants(
        switch_us=median_us("switch_ns"),
        handoff_us=median_us("handoff_ns"),
        latency_us=median_us("latency_ns"),
        step_ns={c.working_set_bytes: statistics.median(c.samples) for c in found if c.quantity == "unit_ns"},
    )
