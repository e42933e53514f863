"""One job by hand, without a coordinator: ``mpirun -n 4 python -P -m workloads news ...``.

Runs under any launcher, on any number of nodes, and prints its record.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from workloads import patterns
from workloads.by_hand import PROGRAM
from workloads.execute import LaunchedProgram
from workloads.locks.lock_program import LockProgram
from workloads.messaging import world
from workloads.options import Options
from workloads.parameters import add_options, parameters_of
from workloads.program import Program
from workloads.rank import prepare
from workloads.record import RankResult
from workloads.validation import InputError
from workloads.waiting_rules import RULES, Waiting, rule_name

DEFAULT_SWITCH_US = 10.0
DEFAULT_LATENCY_US = 2.0

OF_LOCKS = {
    "section_us": "length of critical sections (lock)",
    "locks": "number of locks (lock)",
    "lock": "kind of lock (lock)",
}
WAITS = {"spin_switches": "spin of the fixed rule", "imbalance_estimate": "of global-adaptive"}
"""Options that are fields of programs and of scheduler options, and what they mean."""


def parser() -> argparse.ArgumentParser:
    """The command line; options have the names of keys of the experiment file's ``program`` table."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads",
        description="Run one bulk-synchronous program on all ranks of this mpirun and print its record.",
    )
    parser.add_argument("pattern", choices=[name.lower() for name in patterns.PATTERNS])
    program = parser.add_argument_group("program")
    add_options(program, LockProgram, {**PROGRAM, **OF_LOCKS})
    program.add_argument("--no-opening-barrier", dest="opening_barrier", action="store_false")
    length = program.add_mutually_exclusive_group()
    length.add_argument("--dedicated-s", type=float, help="wanted run time alone (default 1)")
    length.add_argument("--phases", type=int, help="exact number of phases")
    waits = parser.add_argument_group("waiting")
    waits.add_argument("--waiting", type=rule_name, choices=list(RULES), default="spin")
    add_options(waits, Options, WAITS)
    waits.add_argument(
        "--context-switch-us", type=float, default=DEFAULT_SWITCH_US, help="cost of a context switch"
    )
    waits.add_argument("--latency-us", type=float, default=DEFAULT_LATENCY_US, help="one-way message latency")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--processors", help="ids of cores, A,B,...: rank r stays on the r-th (default: as launched)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def run(options: argparse.Namespace) -> list[RankResult]:
    """Run the program that the options describe; rank 0 returns the results of all in rank order."""
    comm = world()
    if options.processors:
        cores = [int(core) for core in options.processors.split(",")]
        os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
    program = described(options, comm.size)
    waits = Options(options.waiting, options.spin_switches, options.imbalance_estimate)

    def rule(program: Program) -> Waiting:
        return waits.waiting_rule(
            context_switch_us=options.context_switch_us,
            latency_us=options.latency_us,
            imbalance_us=program.imbalance_us,
        )

    execution = prepare(LaunchedProgram(comm, program, rule, (options.seed, 0, 0), memory_step_ns=0.0))
    result = execution.run()
    execution.close()
    results: list[RankResult] | None = comm.gather(result, 0)
    return results or []


def described(options: argparse.Namespace, processes: int) -> Program:
    own = {one.name for one in parameters_of(Program)}
    values: dict[str, Any] = {name: value for name, value in vars(options).items() if name in own}
    values |= {"pattern": options.pattern.upper(), "processes": processes}
    if options.phases is None and options.dedicated_s is None:
        values["dedicated_s"] = 1.0
    if options.pattern == "lock":
        del values["opening_barrier"]
        return LockProgram(section_us=options.section_us, locks=options.locks, lock=options.lock, **values)
    return Program(**values)


COLUMNS = (
    ("rank", "rank"),
    ("host", "host"),
    ("seconds", "elapsed_ns"),
    ("computing", "computing_ns"),
    ("communicating", "communicating_ns"),
    ("synchronizing", "synchronizing_ns"),
    ("voluntary", "voluntary_switches"),
    ("involuntary", "involuntary_switches"),
    ("barriers spun", "waits.barrier.spun"),
    ("blocked", "waits.barrier.blocked"),
    ("reads spun", "waits.read.spun"),
    ("blocked", "waits.read.blocked"),
)
"""Heading of each column, and its place in the result of a rank."""


def table(results: Sequence[RankResult]) -> str:
    """The results as lines of text, one row per rank; times in seconds, of CPU but for ``seconds``."""
    rows = [[heading for heading, _ in COLUMNS]]
    for result in results:
        cells = ((place, attrgetter(place)(result)) for _, place in COLUMNS)
        rows.append([f"{cell * 1e-9:.3f}" if place.endswith("_ns") else str(cell) for place, cell in cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def main(arguments: Sequence[str]) -> int:
    """Run and print; returns the exit status: 2 for bad input."""
    options = parser().parse_args(arguments)
    try:
        results = run(options)
    except InputError as error:
        if world().rank == 0:
            sys.stderr.write(f"python -m workloads: {error}\n")
        return 2
    if results:
        text = json.dumps([one.recorded() for one in results]) if options.json else table(results)
        sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
