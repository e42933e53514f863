"""Programs of others: how they are compiled, started, and run two-phase."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from places import SUPPORT
from runs import text

from coordinator.host.processes import children
from workloads import native
from workloads.record import RankResult

PROGRAMS = SUPPORT / "native"


LAUNCHERS = {
    "here": ["mpiexec"],
    "abi": ["mpiexec"],  # the library of the standard ABI
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"],
}


LOCKSTEP = [sys.executable, "-P", "-m", "harness"]


def launcher(mpi):
    """The command that starts programs of an MPI, whose wrapper is there and works."""
    argv = LAUNCHERS[mpi]
    if shutil.which(argv[0]) is None or not native.wrapper(argv).exists():
        pytest.skip(f"no {argv[0]} with a compiler wrapper")
    if mpi == "openmpi" and not Path("/usr/include/x86_64-linux-gnu/mpi/mpi.h").exists():
        pytest.skip("needs the package libopenmpi-dev")
    return argv


def wrapper(mpi):
    if mpi == "gcc":  # without MPI
        return Path("gcc")
    found = native.wrapper(launcher(mpi))
    if mpi != "abi":
        return found
    if not (beside := found.with_name("mpicc_abi")).exists():
        pytest.skip("the MPI has no library of the standard ABI")
    return beside


def hasty_wrapper(folder, *before, words="", mpi="here"):
    """A compiler wrapper that does something first, and optimises nothing, which takes most of its time.

    It gives the compiler further ``words``.
    """
    made = folder / "mpicc"
    made.write_text("\n".join(["#!/bin/sh", *before, f'exec {wrapper(mpi)} {words} "$@" -O0', ""]))
    made.chmod(0o755)
    return made


def compiled_in(folder):
    """A function that compiles one of the programs for an MPI, once."""

    def compile_one(mpi, source, *flags):
        compiler = wrapper(mpi)
        if source.endswith(".cc"):
            compiler = compiler.with_name(compiler.name.replace("mpicc", "mpicxx"))
        if source.endswith(".f90"):
            compiler = compiler.with_name(compiler.name.replace("mpicc", "mpifort"))
            if shutil.which(compiler) is None or shutil.which("gfortran") is None:
                pytest.skip("needs gfortran and the MPI's modules")
        made = folder / "-".join([Path(source).stem, mpi, *flags])
        if not made.exists():
            subprocess.run([compiler, *flags, "-O1", "-o", made, PROGRAMS / source], check=True, cwd=folder)
        return str(made)

    return compile_one


LONG_S = 900
"""Within it a command compiles the library, tries its calls and runs a program, also on a busy host."""


def run(argv, *, extra=None):
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment |= extra or {}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=LONG_S, check=False)


def two_phase(argv, *options):
    return run([*LOCKSTEP, "exec", *options, "--", *argv])


def ended(compiled, mpi, ranks, source, *words, options=(), before=(), flags=()):
    """A program of so many ranks, behind the words of ``before``, that was run two-phase and ended well."""
    argv = [*before, *launcher(mpi), "-n", str(ranks), compiled(mpi, source, *flags), *map(str, words)]
    result = two_phase(argv, *options)
    assert result.returncode == 0, result.stderr
    return result


def as_without(argv, mpi, wanted=""):
    """A two-phase run that ends well and prints the same as one without, at least lines with ``wanted``."""
    plain, ours = run(argv), two_phase(argv, "--waiting", "immediate", "--mpicc", str(wrapper(mpi)))
    assert (plain.returncode, ours.returncode) == (0, 0), ours.stderr
    told = [[line for line in one.stdout.splitlines() if line.startswith(wanted)] for one in (plain, ours)]
    assert told[0] == told[1] != [], ours.stderr
    return ours


def recorded(folder):
    """What the ranks have recorded in a folder, in the order of their names; some have."""
    files = sorted(folder.glob("rank-*.json"))
    found = [RankResult.of_record(json.loads(file.read_text())) for file in files]
    assert found, "no rank has recorded anything"
    return found


def summary(result):
    ranks, waits = re.search(r"two-phase waits: (\d+) ranks, (\d+) waits", result.stderr).groups()
    return {"ranks": int(ranks), "waits": int(waits)}


def losing(lacking, program):
    """A program of which these ranks lose what would be preloaded, as if nobody had passed it on to them."""
    cases = "|".join(map(str, sorted(lacking))) or "none"
    script = f'case "${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}" in {cases}) unset LD_PRELOAD;; esac; exec "$@"'
    return ["sh", "-c", script, "sh", *program]


def missing(said, ranks):
    """The ranks without the library that were told of a job of so many, each time."""
    told = re.findall(rf"ranks? ([\d, ]+) of a job of {ranks} did not say", said)
    return [{int(rank) for rank in found.split(", ")} for found in told]


def proxy_and_ranks(pid):
    """The proxy of MPICH's launcher below a process, and its ranks; None as long as there are not two."""
    for child in children(pid):
        if text(f"/proc/{child}/comm") == "hydra_pmi_proxy\n":
            ranks = [*children(child)]
            return (child, ranks) if len(ranks) == 2 else None
        if found := proxy_and_ranks(child):
            return found
    return None
