"""Recordings of programs that were never run."""

from __future__ import annotations

import numpy as np

from harness.store.recording import KIND, OPERATION, WINDOW, RankRecording, Recording


def recorded(
    by_rank: list[list[tuple[str, float]]], *, windows: int = 1, kept: int | None = None, **columns: int
) -> Recording:
    """A program of these kinds and computing times (us) on each rank, in so many equal windows."""
    ranks = []
    for number, operations in enumerate(by_rank):
        rows = np.zeros(len(operations), OPERATION)
        rows["kind"] = [KIND[kind] for kind, _ in operations]
        rows["compute_ns"] = [1e3 * compute_us for _, compute_us in operations]
        for name, value in columns.items():
            rows[name] = value
        each = len(operations) // windows
        table = np.zeros(windows, WINDOW)
        table["operations"], table["kept"] = each, kept or each
        table["begin_ns"] = np.arange(windows) * 1_000_000
        table["collectives"] = np.arange(windows) * each
        table["compute_ns"] = table["kept_compute_ns"] = 1.0
        there = np.concatenate([rows[each * window :][: kept or each] for window in range(windows)])
        finish_ns = windows * 1_000_000
        one = RankRecording(number, "host", 0, finish_ns, True, False, 1, 1_000_000, table, there, {})
        ranks.append(one)
    return Recording(("mpiexec", "./app"), len(ranks), tuple(ranks))
