"""A recorded program in the terms of the model: phases, their imbalance, and the nearest synthetic program.

A *phase* of a rank is what it computes up to an operation that may wait for others (a receive, the wait
for a request, a probe, a collective operation). Operations with less than LEAST_NS of computing between
them end one phase together; so do messages with less than a share, SHORT, of the 95th percentile. If a
program does less than MOSTLY of its computing in longer bursts, every such operation ends a phase. Start-up
and ending are left out (``stretches.steady``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.store.recording import KIND, MAY_WAIT, SENDS, Recording, Rows, operations, polled
from harness.store.stretches import Stretch, steady, stretches
from workloads.native.recorded import KINDS

LEAST_NS = 5000.0
SHORT = 0.1
MOSTLY = 0.5
MOST_IMBALANCE = 2.0
TO_ALL = [number for name, number in KIND.items() if "ALLTOALL" in name and "NEIGHBOR" not in name]
HALO = 3
"""A process that talks to so many others, and to all, transposes; otherwise they are its neighbours."""


@dataclass(frozen=True)
class Phases:
    """The phases of the steady part of a program."""

    computing_ns: NDArray[Any]  # of every phase of every rank
    # Mean over the phases of (most - mean of the ranks) / mean of all phases; None unless the ranks have
    # equally many phases.
    waiting: float | None
    by_stretch_ns: NDArray[Any]  # mean of each stretch
    stretches: Sequence[Stretch]  # the operations


def profile(recording: Recording) -> dict[str, Any]:
    """What ``lockstep record`` reports of a recording, except where it is (docs/reference/recordings.md)."""
    first, after = steady(recording)
    phases = _phases(stretches(recording, first, after))
    windows = np.concatenate([rank.windows for rank in recording.ranks])
    in_steady = np.concatenate([rank.windows[first:after] for rank in recording.ranks])
    elapsed_ns = sum(rank.elapsed_ns for rank in recording.ranks) or 1
    everything = operations(np.concatenate([rank.rows for rank in recording.ranks]))
    rows = [one for part in phases.stretches for one in part.rows]
    steady_part = operations(np.concatenate([recording.ranks[0].rows[:0], *rows]))
    counts = _counts(steady_part, len(phases.computing_ns))
    kinds = {
        "processes": recording.processes,
        "recorded": len(recording.ranks),
        "elapsed_s": recording.elapsed_ns / 1e9,
        "computing": float(windows["compute_ns"].sum()) / elapsed_ns,
        "in_mpi": float(windows["within_ns"].sum()) / elapsed_ns,
        "operations": int(windows["operations"].sum()),
        "kept": int(windows["kept"].sum()),
        "start_up_s": _start_up_s(recording, first),
        "stretches": len(phases.stretches),
        "covered": _covered(in_steady),
        "variation": _variation(phases),
        "phases": len(phases.computing_ns) // len(recording.ranks),
        "computing_us": _spread_us(phases.computing_ns),
        "between_ranks": _between(phases),
        "per_phase": counts,
        "kinds": _kinds(everything),
    }
    return kinds | {"program": _nearest(recording, phases, counts, steady_part)}


def _phases(parts: Sequence[Stretch]) -> Phases:
    every = []
    waits_ns = []
    means_ns = []
    alike = True
    for part in parts:
        by_rank = _of_ranks(part.rows)
        pooled = np.concatenate(by_rank)
        if not len(pooled):
            continue
        every.append(pooled)
        means_ns.append(pooled.mean())
        if len({len(one) for one in by_rank}) == 1:
            table = np.vstack(by_rank)
            waits_ns.append(table.max(axis=0) - table.mean(axis=0))
        else:
            alike = False
    if not every:
        return Phases(np.zeros(0), None, np.zeros(0), parts)
    computing_ns = np.concatenate(every)
    mean_ns = computing_ns.mean() or 1.0
    waiting = float(np.concatenate(waits_ns).mean() / mean_ns) if alike else None
    return Phases(computing_ns, waiting, np.array(means_ns), parts)


def _of_ranks(rows: Sequence[Rows]) -> list[NDArray[Any]]:
    waits = [MAY_WAIT[one["kind"]] for one in rows]
    ends_ns = [np.cumsum(one["compute_ns"], dtype=float)[at] for one, at in zip(rows, waits, strict=True)]
    bursts_ns = [np.diff(one, prepend=0.0) for one in ends_ns]
    long_ns = np.concatenate(bursts_ns)
    long_ns = long_ns[long_ns >= LEAST_NS]
    message_ns = max(LEAST_NS, SHORT * float(np.percentile(long_ns, 95))) if len(long_ns) else LEAST_NS
    longs = [
        bursts >= np.where(one["kind"][at] >= KIND["BARRIER"], LEAST_NS, message_ns)
        for one, at, bursts in zip(rows, waits, bursts_ns, strict=True)
    ]
    in_long_ns = sum(float(bursts[long].sum()) for bursts, long in zip(bursts_ns, longs, strict=True))
    if in_long_ns < MOSTLY * sum(float(bursts.sum()) for bursts in bursts_ns):
        return bursts_ns
    return [np.diff(ends[long], prepend=0.0) for ends, long in zip(ends_ns, longs, strict=True)]


def _spread_us(computing_ns: NDArray[Any]) -> dict[str, float] | None:
    if not len(computing_ns):
        return None
    median, low, high = np.percentile(computing_ns, (50, 5, 95)) / 1e3
    return {
        "median": float(median),
        "p5": float(low),
        "p95": float(high),
        "mean": float(computing_ns.mean() / 1e3),
    }


def _between(phases: Phases) -> float | None:
    """By how much the rank that computes most exceeds the mean of the ranks."""
    if not phases.stretches:
        return None
    sums = np.sum(
        [[rows["compute_ns"].sum(dtype=float) for rows in part.rows] for part in phases.stretches], 0
    )
    return float(sums.max() / sums.mean() - 1) if sums.any() else None


def _variation(phases: Phases) -> float | None:
    """Standard deviation of the stretches' mean phases over their mean; None for fewer than two."""
    means = phases.by_stretch_ns
    return float(means.std(ddof=1) / means.mean()) if len(means) > 1 and means.any() else None


def _covered(windows: Rows) -> float:
    """Which share of the ranks' time in windows the kept operations took."""
    kept_ns = windows["kept_compute_ns"].sum() + windows["kept_within_ns"].sum()
    return float(kept_ns / ((windows["compute_ns"].sum() + windows["within_ns"].sum()) or 1.0))


def _start_up_s(recording: Recording, first: int) -> float:
    rank = recording.ranks[0]
    if first >= len(rank.windows):
        return 0.0
    return float(rank.windows[first]["begin_ns"] - rank.start_ns) / 1e9


def _counts(columns: Mapping[str, NDArray[Any]], phases: int) -> dict[str, float]:
    sent = np.isin(columns["kind"], SENDS) & (columns["peer"] >= 0)
    collective = columns["kind"] >= KIND["BARRIER"]
    numbers = {
        "operations": float(len(columns["kind"])),
        "messages": float(np.count_nonzero(sent)),
        "collectives": float(np.count_nonzero(collective)),
        "bytes": float(columns["bytes"][sent | collective].sum()),
    }
    return {name: number / max(1, phases) for name, number in numbers.items()}


def _kinds(columns: Mapping[str, NDArray[Any]]) -> list[dict[str, Any]]:
    """The kinds of the kept operations: how many, how many bytes, time in them; that of most time first."""
    kinds = []
    polls = polled(columns)
    for kind in np.unique(columns["kind"]):
        of_kind = columns["kind"] == kind
        kinds.append(
            {
                "kind": KINDS[kind] if kind < len(KINDS) else str(kind),
                "operations": int(np.count_nonzero(of_kind)),
                "bytes": int(columns["bytes"][of_kind & ~polls].sum()),
                "within_s": float(columns["within_ns"][of_kind].sum(dtype=float) / 1e9),
            }
        )
    return sorted(kinds, key=lambda one: -one["within_s"])


def _nearest(
    recording: Recording, phases: Phases, counts: Mapping[str, float], columns: Mapping[str, NDArray[Any]]
) -> dict[str, Any] | None:
    """The fields of the nearest synthetic program; None if the program has no two phases.

    Its mean granularity is the program's. Its ranks lose as much by waiting for the slowest: of P values of a
    uniform distribution of width v the largest is v (P - 1) / (2 (P + 1)) above the mean.
    """
    ranks = len(recording.ranks)
    computing_ns = phases.computing_ns
    if ranks < 2 or len(computing_ns) < 2 * ranks or not computing_ns.any():
        return None
    if phases.waiting is None:
        low, high = np.percentile(computing_ns, (25, 75))
        width = 2 * float(high - low) / float(computing_ns.mean())
    else:
        width = 2 * (ranks + 1) / (ranks - 1) * phases.waiting
    opening = counts["collectives"] >= 0.5
    pattern = _pattern(columns, counts, ranks)
    program = {
        "pattern": pattern,
        "processes": recording.processes,
        "granularity_us": float(f"{computing_ns.mean() / 1e3:.4g}"),
        "imbalance": round(min(MOST_IMBALANCE, width), 3),
        "dedicated_s": float(f"{recording.elapsed_ns / 1e9:.4g}"),
    }
    return program | ({} if opening or pattern == "BARRIER" else {"opening_barrier": False})


def _pattern(columns: Mapping[str, NDArray[Any]], counts: Mapping[str, float], ranks: int) -> str:
    """TRANSPOSE if ranks talk to all others, NEWS if to some, BARRIER if all only wait for each other."""
    to_all = np.count_nonzero(np.isin(columns["kind"], TO_ALL))
    if to_all and to_all >= 0.5 * np.count_nonzero(columns["kind"] >= KIND["BARRIER"]):
        return "TRANSPOSE"
    exchange = 1.5 if ranks == 2 else 0.5  # an exchange of two ranks is a barrier
    if counts["messages"] <= exchange:
        return "BARRIER"
    peers = columns["peer"][np.isin(columns["kind"], SENDS) & (columns["peer"] >= 0)]
    every = ranks > HALO and len(np.unique(peers)) == ranks and counts["messages"] >= ranks - 1
    return "TRANSPOSE" if every else "NEWS"
