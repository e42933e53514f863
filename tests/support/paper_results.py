"""Stored results of the papers, for tests of their claims: ``stored_papers/NAME.json.xz``, in quick mode.

    PYTHONPATH=. python tests/support/paper_results.py [PAPER ...]

makes the files again, of all papers by default: about ten minutes on two quiet cores.
"""

import json
import lzma
import sys
from types import SimpleNamespace

from places import SUPPORT

from harness import papers
from harness.predict.replicate import Mean, Replications
from harness.simulator.jobs.metrics import Metrics

FILES = SUPPORT / "stored_papers"
METRICS = ("response_s", "wait_s", "processors")
"""The metrics that claims are about."""


def packed(value):
    """A value of results as plain values, numbers with four digits."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, list | tuple):
        return [packed(one) for one in value]
    if isinstance(value, Metrics):
        return [packed(getattr(value, name)) for name in METRICS]
    if isinstance(value, SimpleNamespace | Mean | Replications):
        value = vars(value)
    return {key: packed(one) for key, one in value.items()} if isinstance(value, dict) else value


def unpacked(value):
    match value:
        case {"mean": mean, "half": half, "n": n}:
            return Mean(mean, half, n)
        case {"stuck": stuck, "metrics": metrics}:
            return replications(metrics, stuck)
    return value


def replications(metrics, stuck=0):
    """Replications with these response times, waiting times and numbers of processors."""
    return Replications(
        tuple(Metrics(1, response_s, wait_s, 1, 1, 1, size, 1, 0.0) for response_s, wait_s, size in metrics),
        stuck,
    )


def read(paper):
    """The stored results of a paper, and the verdict of each claim that was printed with them."""
    stored = json.loads(lzma.decompress((FILES / f"{paper}.json.xz").read_bytes()))
    return papers.Results(map(restored, *zip(*stored["cells"], strict=True))), stored["verdicts"]


def restored(parameters, found):
    values = {name: unpacked(value) for name, value in found.items()}
    outcome = unpacked(found)
    return papers.Cell(**parameters), SimpleNamespace(**values) if outcome is found else outcome


def write(made):
    """Store what a reproduction made, without what no claim needs."""
    cells = [[vars(cell), packed(result)] for cell, result in made.results.items()]
    for parameters, result in cells:
        if made.paper == "dusseau96" and parameters["rivals_us"] is None:
            del result["responses_s"], result["spun_barriers"]
    verdicts = [[figure, claim.text, claim.verdict] for figure, claim in made.claims]
    text = json.dumps({"cells": cells, "verdicts": verdicts}, separators=(",", ":"))
    FILES.mkdir(exist_ok=True)
    (FILES / f"{made.paper}.json.xz").write_bytes(lzma.compress(text.encode(), preset=9))


if __name__ == "__main__":
    for name in sys.argv[1:] or papers.PAPERS:
        write(papers.reproduce(name, quick=True, progress=lambda *step: None))
