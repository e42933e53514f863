"""Recordings of programs that run for more than an hour, as the recorder keeps them: every window is full."""

import numpy as np

from harness.store.recording import KIND, OPERATION, SLOTS, WINDOW, RankRecording, Recording

KEPT = 65_536
"""Operations of a rank that a window keeps, at most (``workloads/native/operations.c``)."""

WINDOW_S = 256.0
"""What the first 62.5 ms have become, doubled twelve times: 16 windows are 4096 s."""

PHASE_US = 100.0
OTHER = -3
PHASES = {
    "allreduce": [("ALLREDUCE", 8, -1, 0)],
    "exchange": [
        *(("IRECV", 1024, OTHER, 1), ("ISEND", 1024, OTHER, 2)),
        *(("WAIT", 0, OTHER, 1), ("WAIT", 0, OTHER, 2)),
    ],
}
"""What two ranks do after each computation: kinds, bytes, peers (OTHER: the other rank) and requests."""


def long_recording(phase, kept=KEPT):
    """A loop of two ranks, which compute for about PHASE_US and then do one of PHASES, for 4096 s.

    ``kept``: operations of a rank in each window. Its MPI is like MPICH: collective operations have a root.
    """
    ranks = tuple(_rank(rank, phase, kept) for rank in (0, 1))
    return Recording(("mpiexec", "-n", "2", "./loop"), len(ranks), ranks)


def _rank(rank, phase, kept):
    windows = np.zeros(SLOTS, WINDOW)
    phases = round(WINDOW_S * 1e6 / PHASE_US)
    window_ns = round(WINDOW_S * 1e9)
    windows["kept"], windows["operations"] = kept, phases * len(PHASES[phase])
    windows["begin_ns"] = np.arange(SLOTS) * window_ns
    windows["collectives"] = np.arange(SLOTS) * phases * (phase == "allreduce")
    random = np.random.default_rng(rank)
    rows = np.concatenate([_rows(rank, phase, kept, random) for _ in range(SLOTS)])
    for name in ("compute_ns", "within_ns"):
        windows[f"kept_{name}"] = rows[name].reshape(SLOTS, kept).sum(axis=1)
        windows[name] = windows[f"kept_{name}"] * windows["operations"] / kept
    finish_ns = SLOTS * window_ns
    return RankRecording(
        *(rank, "host", 0, finish_ns, True, False, 1, window_ns, windows, rows, {0: (0, 1)}, True)
    )


def _rows(rank, phase, kept, random):
    """The kept operations of a window; their times differ, as real ones do."""
    once = np.zeros(len(PHASES[phase]), OPERATION)
    for row, (kind, size, peer, request) in zip(once, PHASES[phase], strict=True):
        row["kind"], row["bytes"], row["request"] = KIND[kind], size, request
        row["peer"] = 1 - rank if peer == OTHER else peer
    phases = kept // len(once)
    rows = np.tile(once, phases)
    numbers = np.repeat(np.arange(phases, dtype=np.uint32), len(once))
    rows["request"] += np.where(rows["request"] > 0, 2 * numbers, 0).astype(np.uint32)
    rows["compute_ns"], rows["within_ns"] = random.gamma(2.0, (50.0, 500.0), (len(rows), 2)).T
    rows["compute_ns"][:: len(once)] = 1e3 * PHASE_US * random.uniform(0.8, 1.2, phases)
    return rows
