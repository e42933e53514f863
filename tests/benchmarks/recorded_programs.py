"""Programs that are not ours beside each other, measured and simulated by recordings of them alone.

    python -P tests/benchmarks/recorded_programs.py
    python -P tests/benchmarks/recorded_programs.py --quick
    python -P tests/benchmarks/recorded_programs.py --programs lammps hpcc --jobs 2 --rounds 5

A row for each program, number of jobs and scheduler: the workload slowdown measured and simulated (medians
over rounds), and the error. Then the errors of all rows, how many pairs of schedulers come in the same order
(Kendall's tau) among those whose measured slowdowns differ by more than 5 %, and how often the scheduler that
is best by simulation is one of the best as measured.

--advice measures all schedulers that ``lockstep advise`` may name, has it advise on the recording of each
program (but for ``mixed``), and says how often the one that it names is one of the best as measured.

``mixed`` is the C program beside LAMMPS and a synthetic one. ``--results`` keeps the records, for ``lockstep
compare``. --quick takes one round of three
jobs of the first three programs. lammps and hpcc are Debian's packages, linked with its Open MPI.
"""

import itertools
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import DEBIAN, LAMMPS, LOOPS, answer, compiled, parsed, write_hpcc

from harness.analyse.advise import CANDIDATES
from harness.predict import recorded_programs
from harness.spec.scheduler import scheduler_of
from harness.store.database import Store
from harness.store.rebuild import experiment_of

SCHEDULERS = (
    {"policy": "none"},
    {"policy": "gang", "quantum_ms": 10},
    {"policy": "gang", "quantum_ms": 100},
    {"policy": "implicit", "waiting": "fixed"},
    {"policy": "implicit", "waiting": "global-adaptive"},
)
APART = 0.05
CLOSE = 0.03
NAMES = ("c-fine", "c-coarse", "fortran", "lammps", "hpcc", "mixed")


def command(name, seconds, folder):
    """Launcher and words of a program that takes about so long alone."""
    if name == "lammps":
        return [DEBIAN, *LAMMPS, str(round(180 * seconds))]
    if name == "hpcc":
        write_hpcc(folder, 1000)
        return [DEBIAN, "hpcc"]
    if name == "fortran":
        made = compiled(DEBIAN, folder, *LOOPS["fortran-f08"])
        return [DEBIAN, made, "500", "0.5", str(int(seconds * 2000))]
    g_us, imbalance = (100, 0.25) if name == "c-fine" else (5000, 1.0)
    made = compiled("mpiexec", folder, *LOOPS["c"])
    return ["{launcher}", made, str(g_us), str(imbalance), str(int(seconds * 1e6 / g_us))]


def job(name, count, seconds, folder):
    """The [[jobs]] table of so many copies of a program."""
    launcher, *words = command(name, seconds, folder)
    argv = json.dumps([launcher, "-n", "2", *words])
    return (
        f"[[jobs]]\ncount = {count}\ncommand = {argv}\ndedicated_s = {seconds}\n"
        'waits = "two-phase"\nrecord = true\n'
    )


def experiment(name, count, options, folder):
    if name == "mixed":
        jobs = job("c-fine", 1, options.seconds, folder) + job("lammps", 1, options.seconds, folder)
        program = '{ pattern = "NEWS", granularity_us = 1000, imbalance = 0.5, dedicated_s = %s }'
        jobs += "[[jobs]]\nprogram = " + program % options.seconds + "\n" if count > 2 else ""
    else:
        jobs = job(name, count, options.seconds, folder)
    title = f'name = "{name}-{count}"\nprocessors = 2\nrepeats = {options.rounds}\n'
    return title + jobs + "".join(map(scheduler_table, schedulers(options)))


def schedulers(options):
    """The schedulers to measure; with --advice also all others that ``lockstep advise`` may name."""
    known = {named(scheduler_of(table).table) for table in SCHEDULERS}
    others = [table for table in CANDIDATES if named(scheduler_of(table).table) not in known]
    others = [
        table for table in others if table["policy"] != "partitioned"
    ]  # two jobs have no room side by side
    return [*SCHEDULERS, *(others if options.advice else [])]


def scheduler_table(keys):
    return "[[schedulers]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def named(scheduler):
    words = [scheduler["policy"], f"{scheduler['quantum_ms']:g} ms" if "quantum_ms" in scheduler else ""]
    words += [] if scheduler["waiting"] == "spin" else [scheduler["waiting"]]
    return " ".join(filter(None, words))


def lockstep(options, folder, *words):
    """The document that a command prints, which uses the benchmark's store."""
    more = ["--no-wait"] if options.no_wait else []
    return answer(folder, *words, "--json", "--results", str(results_of(options, folder)), *more)


def results_of(options, folder):
    return options.results.absolute() if options.results else folder / "results"


def measured(name, count, options, folder):
    file = folder / f"{name}-{count}.toml"
    file.write_text(experiment(name, count, options, folder))
    return lockstep(options, folder, "run", file.name)


def rows_of(document):
    """Scheduler, measured and simulated slowdown of each row."""
    for row in document["rows"]:
        sides = [row[side] and row[side]["workload_slowdown"]["median"] for side in ("measured", "simulated")]
        yield named(row["scheduler"]), *sides


def advised(document, count, options, folder):
    """The scheduler that ``lockstep advise`` names for the recorded program, and how many seconds it took."""
    results = results_of(options, folder)
    with Store(results) as store:
        records = store.runs(document["digest"])
    (path,) = recorded_programs.of(experiment_of(records), records, results).files.values()
    here = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(here)[:2])  # advice is for all processors that it may use
    try:
        begin = time.monotonic()
        found = lockstep(options, folder, "advise", "--recording", str(path), "--jobs", str(count))
        return named(found["rows"][0]["scheduler"]), time.monotonic() - begin
    finally:
        os.sched_setaffinity(0, here)


def is_right(rows, scheduler):
    """Whether a scheduler is one of the best as measured; says so."""
    known = {name: slowdown for name, slowdown, _ in rows if slowdown is not None}
    if not known:
        return False
    best = min(known, key=known.get)
    right = scheduler in known and known[scheduler] <= (1 + CLOSE) * known[best]
    print(
        f"advised: {scheduler}, measured {known.get(scheduler, float('nan')):.2f}; "
        f"best: {best}, {known[best]:.2f}: {'right' if right else 'wrong'}",
        flush=True,
    )
    return right


def same_order(rows):
    """Kendall's tau over pairs of rows of one experiment that are measurably apart, and their number."""
    signs = [
        1 if (one[1] < other[1]) == (one[2] < other[2]) else -1
        for one, other in itertools.combinations(rows, 2)
        if abs(one[1] - other[1]) > APART * min(one[1], other[1])
    ]
    return sum(signs), len(signs)


def well_advised(rows):
    """Whether the scheduler that is best by simulation is one of the best as measured."""
    advised = min(rows, key=lambda row: row[2])
    return advised[1] <= (1 + CLOSE) * min(row[1] for row in rows)


def in_words(found):
    """The errors, orders and advice of all experiments, whose rows are given."""
    errors = sorted(abs(simulated / measured - 1) for rows in found for _, measured, simulated in rows)
    ninth = errors[min(len(errors) - 1, int(0.9 * len(errors)))]
    agree, pairs = map(sum, zip(*map(same_order, found), strict=True))
    tau = f"{agree / pairs:.2f}" if pairs else "-"
    right = sum(map(well_advised, found))
    return (
        f"{len(errors)} rows: error {statistics.median(errors):.1%} in the median, 90th percentile "
        f"{ninth:.1%}; tau {tau} over {pairs} pairs; the best by simulation is within "
        f"{CLOSE:.0%} of the best measured in {right} of {len(found)} experiments"
    )


def main():
    options = parsed(
        __doc__,
        **{"rounds": 3, "quick": False},
        programs={"nargs": "+", "choices": NAMES, "default": list(NAMES)},
        jobs={"nargs": "+", "type": int, "default": [2, 3]},
        seconds={"default": 2.0, "help": "of a program alone, about"},
        results={"type": Path, "help": "directory for the records (default: none are kept)"},
        no_wait={"default": False, "help": "measure on a busy host, too"},
        advice={"default": False, "help": "is the advice of lockstep advise right?"},
    )
    if options.quick:
        options.programs, options.jobs, options.rounds = options.programs[:3], [3], 1
    found, advice = [], []
    print(f"{'program':10} {'jobs':>4} {'scheduler':24} {'measured':>8} {'simulated':>9} {'error':>7}")
    with tempfile.TemporaryDirectory() as name:
        for program, count in itertools.product(options.programs, options.jobs):
            document = measured(program, count, options, Path(name))
            rows = list(rows_of(document))
            for scheduler, *sides in rows:
                cells = ["-" if side is None else f"{side:.2f}" for side in sides]
                error = "-" if None in sides else f"{sides[1] / sides[0] - 1:+.1%}"
                print(
                    f"{program:10} {count:4} {scheduler:24} {cells[0]:>8} {cells[1]:>9} {error:>7}",
                    flush=True,
                )
            found.append([row for row in rows if None not in row])
            if options.advice and program != "mixed":
                scheduler, took_s = advised(document, count, options, Path(name))
                advice.append((is_right(rows, scheduler), took_s))
    if any(found):
        print(in_words([rows for rows in found if rows]))
    if advice:
        right, took_s = zip(*advice, strict=True)
        print(f"advice right in {sum(right)} of {len(advice)}, in at most {max(took_s):.0f} s")


if __name__ == "__main__":
    main()
