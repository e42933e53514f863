"""The arguments of ``python -m workloads``, which runs one program without a coordinator."""

from collections.abc import Mapping
from dataclasses import fields

from workloads.patterns import BULK_SYNCHRONOUS
from workloads.program import Program
from workloads.validation import InputError, one_of

PROGRAM: Mapping[str, str | None] = {
    "granularity_us": "g, mean computation per phase",
    "imbalance": "v/g, from 0 to 2",
    "imbalance_kind": None,
    "read_gap_us": "c, computation before each read",
    "read_imbalance": "w/c, from 0 to 2",
    "read": None,
    "working_set_bytes": None,
}
"""Options that are fields of every program, and what they mean."""

OTHERWISE = ("pattern", "processes", "phases", "dedicated_s", "opening_barrier")
"""Fields of a program that other arguments and the launcher give."""


def arguments(program: Program) -> list[str]:
    """The arguments with which ``python -m workloads`` runs ``program``, under a launcher of its processes.

    Raises:
        InputError: for a program that is not bulk-synchronous, or needs a coordinator.
    """
    one_of("pattern", program.pattern, BULK_SYNCHRONOUS)
    every = {one.name: (getattr(program, one.name), one.default) for one in fields(program)}
    changed = {name: value for name, (value, default) in every.items() if value != default}
    for name in changed.keys() - PROGRAM.keys() - {*OTHERWISE}:
        rule = "needs Lockstep around the program, and there is none"
        raise InputError(name, changed[name], rule, "leave it out")
    words = [program.pattern.lower(), "--phases", str(program.phase_count())]
    for name in (name for name in PROGRAM if name in changed):
        words += [f"--{name.replace('_', '-')}", str(changed[name])]
    return words if program.opening_barrier else [*words, "--no-opening-barrier"]
