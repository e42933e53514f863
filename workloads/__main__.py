"""One job by hand, without a coordinator: ``mpirun -n 4 python -P -m workloads news ...``.

Runs under any launcher, on any number of nodes, and prints its record.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from workloads import patterns
from workloads.blocking import DEFAULT_ESTIMATE, ESTIMATES, RULES, Waiting, rule_name, waiting
from workloads.locks.lock_program import LOCKS, LockProgram
from workloads.messaging import world
from workloads.program import IMBALANCE_KINDS, READ_KINDS, Program
from workloads.rank import prepare
from workloads.validation import InputError

DEFAULT_SWITCH_US = 10.0
DEFAULT_LATENCY_US = 2.0


def parser() -> argparse.ArgumentParser:
    """The command line; options have the names of keys of the experiment file's ``program`` table."""
    parser = argparse.ArgumentParser(
        prog="python -m workloads",
        description="Run one bulk-synchronous program on all ranks of this mpirun and print its record.",
    )
    parser.add_argument("pattern", choices=[name.lower() for name in patterns.PATTERNS])
    program = parser.add_argument_group("program")
    program.add_argument("--granularity-us", type=float, default=1000.0, help="g, mean computation per phase")
    program.add_argument("--imbalance", type=float, default=0.0, help="v/g, from 0 to 2")
    program.add_argument("--imbalance-kind", choices=IMBALANCE_KINDS, default="uniform")
    program.add_argument("--read-gap-us", type=float, default=8.0, help="c, computation before each read")
    program.add_argument("--read-imbalance", type=float, default=0.0, help="w/c, from 0 to 2")
    program.add_argument("--no-opening-barrier", dest="opening_barrier", action="store_false")
    program.add_argument("--read", choices=READ_KINDS, default="message")
    program.add_argument("--working-set-bytes", type=int, default=0)
    program.add_argument("--section-us", type=float, default=20.0, help="length of critical sections (lock)")
    program.add_argument("--locks", type=int, default=1, help="number of locks (lock)")
    program.add_argument("--lock", choices=list(LOCKS), default="ticket", help="kind of lock (lock)")
    length = program.add_mutually_exclusive_group()
    length.add_argument("--dedicated-s", type=float, help="wanted run time alone (default 1)")
    length.add_argument("--phases", type=int, help="exact number of phases")
    waits = parser.add_argument_group("waiting")
    waits.add_argument("--blocking", type=rule_name, choices=list(RULES), default="spin")
    waits.add_argument("--spin-switches", type=float, default=2, help="spin of the fixed rule")
    waits.add_argument(
        "--imbalance-estimate", choices=list(ESTIMATES), default=DEFAULT_ESTIMATE, help="of global-adaptive"
    )
    waits.add_argument("--switch-us", type=float, default=DEFAULT_SWITCH_US, help="cost of a context switch")
    waits.add_argument("--latency-us", type=float, default=DEFAULT_LATENCY_US, help="one-way message latency")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--processors", help="ids of cores, A,B,...: rank r stays on the r-th (default: as launched)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    return parser


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the program that the options describe; rank 0 returns all records in rank order."""
    comm = world()
    if options.processors:
        cores = [int(core) for core in options.processors.split(",")]
        os.sched_setaffinity(0, {cores[comm.rank % len(cores)]})
    program = described(options, comm.size)

    def rule(program: Program) -> Waiting:
        return waiting(
            options.blocking,
            switch_us=options.switch_us,
            latency_us=options.latency_us,
            spin_switches=options.spin_switches,
            imbalance_estimate=options.imbalance_estimate,
            imbalance_us=program.imbalance_us,
        )

    execution = prepare(comm, program, rule, (options.seed, 0, 0), 0.0)
    record = execution.run()
    execution.close()
    records: list[dict[str, Any]] | None = comm.gather(record, 0)
    return records or []


def described(options: argparse.Namespace, processes: int) -> Program:
    length = {"phases": options.phases, "dedicated_s": options.dedicated_s}
    if options.phases is None and options.dedicated_s is None:
        length["dedicated_s"] = 1.0
    shared: dict[str, Any] = {
        "processes": processes,
        "granularity_us": options.granularity_us,
        "imbalance": options.imbalance,
        "imbalance_kind": options.imbalance_kind,
        "working_set_bytes": options.working_set_bytes,
        **length,
    }
    if options.pattern == "lock":
        return LockProgram(section_us=options.section_us, locks=options.locks, lock=options.lock, **shared)
    return Program(
        pattern=options.pattern.upper(),
        read_gap_us=options.read_gap_us,
        read_imbalance=options.read_imbalance,
        opening_barrier=options.opening_barrier,
        read=options.read,
        **shared,
    )


COLUMNS = (
    ("rank", "rank", 1),
    ("host", "host", None),
    ("seconds", "elapsed_ns", 1e-9),
    ("computing", "computing_ns", 1e-9),
    ("communicating", "communicating_ns", 1e-9),
    ("synchronizing", "synchronizing_ns", 1e-9),
    ("voluntary", "voluntary_switches", 1),
    ("involuntary", "involuntary_switches", 1),
    ("barriers spun", "barrier.spun", 1),
    ("blocked", "barrier.blocked", 1),
    ("reads spun", "read.spun", 1),
    ("blocked", "read.blocked", 1),
)
"""Heading, key in the flattened record and factor of each column; no factor for text."""


def table(records: Sequence[dict[str, Any]]) -> str:
    """The records as lines of text, one row per rank; times in seconds, of CPU but for ``seconds``."""
    rows = [[heading for heading, _, _ in COLUMNS]]
    for record in records:
        flat = {**record, "elapsed_ns": record["finish_ns"] - record["start_ns"]}
        for kind, waits in record["waits"].items():
            flat |= {f"{kind}.{name}": value for name, value in waits.items()}
        rows.append([_cell(flat[key], factor) for _, key, factor in COLUMNS])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def _cell(value: Any, factor: float | None) -> str:
    if factor is None or factor == 1:
        return str(value)
    return f"{value * factor:.3f}"


def main(arguments: Sequence[str]) -> int:
    """Run and print; returns the exit status: 2 for bad input."""
    options = parser().parse_args(arguments)
    try:
        records = run(options)
    except InputError as error:
        if world().rank == 0:
            sys.stderr.write(f"python -m workloads: {error}\n")
        return 2
    if records:
        sys.stdout.write((json.dumps(records) if options.json else table(records)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
