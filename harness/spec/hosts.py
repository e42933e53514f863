"""The hosts to run on, from the experiment file, ``--hosts``, a host file or an allocation."""

import os
import re
from pathlib import Path
from typing import Any

from coordinator.workload import Node
from harness.spec.overrides import Override, make
from slurm import allocation
from slurm.command import SlurmError
from workloads.bounds import BOUNDS
from workloads.validation import InputError, refused

RULE = "must be a list of hosts, each with its number of processors"
REMEDY = 'write hosts = ["node1:2", "node2:2"]'


def parse(entries: Any) -> tuple[Node, ...]:
    """The nodes that ``["host:processors", ...]`` names, also in Slurm's notation; no number means one."""
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise InputError("hosts", entries, RULE, REMEDY)
    nodes: dict[str, Node] = {}
    for index, entry in enumerate(entries):
        key = f"hosts[{index}]"
        for node in _nodes(entry, key):
            if node.host in nodes:
                raise InputError(
                    key, entry, "cannot name a host a second time", "name it once, with all its processors"
                )
            nodes[node.host] = node
    return tuple(nodes.values())


def _nodes(entry: str, key: str) -> list[Node]:
    """The nodes of an entry: "c[01-03]:2" stands for three, with two processors each."""
    host, colon, count = entry.partition(":")
    try:
        names = allocation.expand(host)
    except ValueError as error:
        raise InputError(key, entry, str(error), 'write brackets as Slurm does: "c[01-03,07]:2"') from None
    several = len(allocation.split(host)) > 1
    if several or not host or host.startswith("-") or not host.isprintable() or " " in host:
        raise InputError(key, entry, "must begin with the name of a host", REMEDY)
    most = int(BOUNDS["hosts"].maximum)
    processors = int(count) if re.fullmatch(r"[0-9]{1,9}", count) else 0
    if colon and not 1 <= processors <= most:
        raise InputError(key, entry, f"must end with a number of processors from 1 to {most}", REMEDY)
    return [Node(name, processors if colon else 1) for name in names]


def named(hosts: str | None, file: Path | None) -> list[str] | None:
    """The entries of ``--hosts``, or of the file of ``--hostfile``; None if there is neither."""
    if file is not None:
        return read(file)
    return None if hosts is None else allocation.split(hosts)


def chosen(hosts: str | None, file: Path | None) -> list[Override]:
    """The same as a setting of an experiment; none without these options, or with an empty list."""
    entries = named(hosts, file) or []
    origin = f"--hostfile {file}" if file else f"--hosts {hosts}"
    return [make("hosts", entries, origin)] if any(entries) else []


def read(path: Path) -> list[str]:
    """The entries of a host file as MPI launchers take it: a host, or host:processors, on a line."""
    with refused("--hostfile", path, "cannot be read", "name a file with a host on each line"):
        data = path.read_bytes()
    try:
        lines = [line.partition("#")[0].strip() for line in data.decode().splitlines()]
    except UnicodeDecodeError as error:
        raise InputError(
            "--hostfile",
            str(path),
            f"must be UTF-8 text: byte {error.start} is not",
            "save the file as UTF-8",
        ) from error
    entries = [line for line in lines if line]
    if not entries:
        raise InputError("--hostfile", str(path), "must name a host", "write a host on each line")
    return entries


def of_allocation() -> list[Override]:
    """The hosts and processors of the Slurm allocation around this process, as overrides."""
    try:
        nodes = allocation.nodes(os.environ)
    except SlurmError as error:
        raise InputError(
            "--allocation",
            True,
            f"needs a Slurm allocation: {error}",
            "use it in a batch script, as lockstep submit writes it",
        ) from error
    entries = [f"{host}:{processors}" for host, processors in nodes]
    if len(entries) > 1:
        return [make("hosts", entries, "--allocation")]
    return [make("hosts", [], "--allocation"), make("processors", nodes[0][1], "--allocation")]
