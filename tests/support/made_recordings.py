"""Recordings of programs that were never run, and files of ranks that did nothing."""

import numpy as np

from harness.store.recording import (
    HEAD,
    HEAD_BYTES,
    KIND,
    MAGIC,
    OPERATION,
    SLOTS,
    VERSION,
    WINDOW,
    RankRecording,
    Recording,
)


def recorded(by_rank, *, windows=1, kept=None, **columns):
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
        known = (number, "host", 0, finish_ns, True, False, 1, 1_000_000, table, there, {})
        one = RankRecording(*known, yield_interval_ns=0.0)
        ranks.append(one)
    return Recording(("mpiexec", "./app"), len(ranks), tuple(ranks))


def rank_file(magic=MAGIC, **fields):
    """The file of a rank that has done nothing, with one window."""
    head = np.zeros((), HEAD)
    known = {"magic": magic, "world": b"w", "version": VERSION, "ranks": 1, "slots": 1, "most_kept": 64}
    for name, value in (known | {"slot_ns": 62_500_000} | fields).items():
        head[name] = value
    room = HEAD_BYTES + SLOTS * int(head["most_kept"]) * OPERATION.itemsize
    return head.tobytes().ljust(min(room, 1_000_000), b"\0")
