"""What other programs on the same processors do to the results of a run, and what is shown of them.

    python -P tests/benchmarks/disturbed.py --results DIR [--strength 5] [--processes 2] [--more WORDS]
    python -P tests/benchmarks/disturbed.py --results DIR --table 1

The first line runs ``three-jobs --quick`` (``--experiment`` and ``--more`` change that) while other processes
want a processor in bursts of 0.2 to 2 s. Between bursts they sleep for as long as keeps their CPU time
at ``--strength`` percent of two processors. Records go to ``DIR/STRENGTH``; strength 0 is the quiet run to
compare with.

The second line prints a table of all runs there: the strength as the records have it (the mean share that
others took), each row's slowdown, by how much it differs from the quiet one, whether that is inside the quiet
interval, and ``-`` where it is withheld.
"""

import multiprocessing
import random
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed, stored

from harness.analyse import results_document
from harness.analyse.summary import BELOW
from harness.store.records import MEASURED_KINDS

PROCESSORS = 2
BURST_S = 0.2, 2.0


def want(share, seed):
    """Want a processor in bursts for ever, and take ``share`` of one in the mean."""
    chance, begin_s = random.Random(seed), time.monotonic()
    while True:
        until_s = time.monotonic() + chance.uniform(*BURST_S)
        while time.monotonic() < until_s:
            pass
        due_s = begin_s + time.process_time() / share
        time.sleep(max(0.05, (due_s - time.monotonic()) * chance.uniform(0.5, 1.5)))


@contextmanager
def disturber(strength, processes):
    """Processes that together take ``strength`` percent of the processors, until the context ends."""
    share = strength / 100 * PROCESSORS / processes
    ours = [multiprocessing.Process(target=want, args=(share, n), daemon=True) for n in range(processes)]
    for one in ours if strength else ():
        one.start()
    try:
        yield
    finally:
        for one in ours if strength else ():
            one.terminate()
            one.join()


def made(folder):
    """The rows of a run, the mean share that others took from it, and how many runs were repeated."""
    experiment, records = stored(folder)
    measured = [record for record in records if record.kind in MEASURED_KINDS]
    shares = [record.conditions.others or 0.0 for record in measured]
    keys = {(one.cell, one.repeat, one.kind, str(one.scheduler), one.jobs[0].job) for one in measured}
    found = results_document.results(experiment, records)
    return found, statistics.fmean(shares), len(measured) - len(keys)


def compared(row, quiet):
    """The slowdown of a row, and how it differs from the quiet one."""
    median, usual = row.median("measured"), quiet.median("measured")
    if median is None or usual is None:
        return "-"
    ends = quiet.measured.workload_slowdown.ends or (usual, usual)
    inside = " inside" if ends[0] <= median <= ends[1] else ""
    impossible = " IMPOSSIBLE" if row.bound and median < (1 - BELOW) * row.bound else ""
    return f"{median:.2f} {100 * (median / usual - 1):+.1f} %{inside}{impossible}"


def table(results):
    folders = sorted((one for one in results.iterdir() if one.is_dir()), key=lambda one: float(one.name))
    found = [(folder, *made(folder)) for folder in folders]
    _, quiet, _, _ = found[0]
    print(
        "| asked for | others took | repeated |", " | ".join(row.name for row in quiet.rows), "| constants |"
    )
    print("|---" * (len(quiet.rows) + 4) + "|")
    for folder, document, share, again in found:
        cells = [compared(row, usual) for row, usual in zip(document.rows, quiet.rows, strict=True)]
        known = "calibrated" if document.machine.get("latency_us") else "of 1996"
        print(f"| {folder.name} % | {share:.1%} | {again} |", " | ".join(cells), f"| {known} |")


def main():
    options = parsed(
        __doc__,
        results={"type": Path, "required": True},
        strength=0.0,
        processes=2,
        experiment="three-jobs",
        more="",
        table=0,
    )
    if options.table:
        table(options.results)
        return
    folder = options.results / f"{options.strength:g}"
    command = ["run", options.experiment, "--quick", "--results", str(folder), *options.more.split()]
    with disturber(options.strength, options.processes):
        subprocess.run([sys.executable, "-P", "-m", "harness", *command], check=False)


if __name__ == "__main__":
    main()
