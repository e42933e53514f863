"""The allocation around a process: which nodes, and how many processors of each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from slurm.command import SlurmError
from slurm.nodelist import expand

_COUNT = re.compile(r"([0-9]+)(?:\(x([0-9]+)\))?")


def inside(environment: Mapping[str, str]) -> bool:
    return "SLURM_JOB_ID" in environment


def nodes(environment: Mapping[str, str]) -> list[tuple[str, int]]:
    """Name and number of processors of each node, in Slurm's order.

    A node's number is the number of tasks per node that the job asked for, else the number of
    processors that it has there.
    """
    if not inside(environment):
        raise SlurmError("there is no allocation here: SLURM_JOB_ID is not set")
    try:
        hosts = expand(environment["SLURM_JOB_NODELIST"])
        tasks = environment.get("SLURM_NTASKS_PER_NODE", "")
        counts = [int(tasks)] * len(hosts) if tasks else per_node(environment["SLURM_JOB_CPUS_PER_NODE"])
    except (KeyError, ValueError) as error:
        raise SlurmError(f"the variables of the allocation cannot be read: {error}") from error
    if len(counts) != len(hosts):
        raise SlurmError(f"the allocation lists {len(hosts)} nodes, but processors of {len(counts)}")
    return list(zip(hosts, counts, strict=True))


def per_node(text: str) -> list[int]:
    """The numbers in Slurm's "2(x3),4", one for each node."""
    counts: list[int] = []
    for part in text.split(","):
        found = _COUNT.fullmatch(part)
        if found is None:
            raise ValueError(f"{text!r} is not a list of numbers")
        counts += [int(found[1])] * int(found[2] or 1)
    return counts
