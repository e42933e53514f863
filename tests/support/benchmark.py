"""What benchmarks share: options, other versions of the product, answers of commands, programs, medians."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from places import ROOT, SUPPORT

PROGRAMS = SUPPORT / "native"
LOCKSTEP = [sys.executable, "-P", "-m", "harness"]
DEBIAN = "mpirun.openmpi"
FREE_FORM = ("-cpp", "-ffree-line-length-none")
LOOPS = {
    "c": ("bsp.c", "mpicc"),
    "fortran-use-mpi": ("bsp.f90", "mpifort", *FREE_FORM),
    "fortran-f08": ("bsp.f90", "mpifort", *FREE_FORM, "-DF08"),
}
"""Source, compiler wrapper and flags of a bulk-synchronous loop."""

LAMMPS = ["lmp", "-in", str(PROGRAMS / "melt.in"), "-log", "none", "-var", "steps"]
"""Its number of steps follows."""

OPENMPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), **OPENMPI}


def parsed(doc, **named):
    """The options of a benchmark: each has its default here, or the arguments of ``add_argument``.

    The help is the module's text; a name that begins with ``_`` is that of a positional argument.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, keywords in named.items():
        how = keywords if isinstance(keywords, dict) else {"default": keywords}
        default = how.get("default")
        if default is False:
            how = how | {"action": "store_true"}
        elif isinstance(default, int | float) and "type" not in how:
            how = how | {"type": type(default)}
        words = name[1:] if name[0] == "_" else f"--{name.replace('_', '-')}"
        parser.add_argument(words, **how)
    return parser.parse_args()


RENAMED = {
    **{"blocking": "waiting", "doubts": "warnings", "alone": "dedicated", "processor_s": "cpu_s"},
    **{"detour_length_us": "os_noise_length_us", "detour_gap_us": "os_noise_interval_us"},
    **{"turn_us": "queried_slice_us", "ring_us": "wake_us", "reload_us": "cache_reload_us"},
    **{"walk_step_ns": "memory_step_ns", "switch_scatter_us": "switch_deviation_us"},
    **{"lateness_us": "switch_delay_us", "tick_lateness_us": "tick_delay_us", "alone_s": "dedicated_s"},
}
"""Keys of former commits, and the present ones, so that both can be compared (docs/decisions.md)."""


@contextmanager
def version(commit):
    with tempfile.TemporaryDirectory() as folder:
        packed = subprocess.check_output(["git", "archive", commit], cwd=ROOT)
        subprocess.run(["tar", "-x", "-C", folder], input=packed, check=True)
        yield folder


def answer(folder, *words):
    """The document that a command of Lockstep prints; its progress is ours."""
    argv = [*LOCKSTEP, *words]
    result = subprocess.run(argv, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=False)
    if not result.stdout:  # it has said why; a document may tell of runs that failed
        raise SystemExit(result.returncode)
    return json.loads(result.stdout)


def stored(results):
    """The one experiment of a store, and its records."""
    from harness.store.database import Store  # noqa: PLC0415 - those who have no store do without
    from harness.store.rebuild import experiment_of  # noqa: PLC0415

    with Store(results, existing=True) as store:
        ((digest, _),) = store.experiments()
        records = store.runs(digest)
    return experiment_of(records), records


def compiled(launcher, folder, source, wrapper="mpicc", *flags):
    """A program of tests/support/native, or a file, made by a wrapper of the launcher's MPI."""
    from workloads import native  # noqa: PLC0415 - of the version that is measured

    mpicc = native.wrapper([launcher])
    path = Path(folder, Path(source).stem)
    compiler = mpicc.with_name(mpicc.name.replace("mpicc", wrapper))
    subprocess.run([compiler, "-O2", "-o", path, PROGRAMS / source, *flags], check=True, cwd=folder)
    return str(path)


def write_hpcc(folder, order):
    """The input of Debian's HPC Challenge, for a matrix of that order."""
    small = (PROGRAMS / "hpccinf.txt").read_text()
    (folder / "hpccinf.txt").write_text(small.replace("64 Ns", f"{order} Ns").replace("16 NBs", "80 NBs"))


def launched(launcher, ranks, program):
    """The command line of ranks that are bound to no core, however many there are."""
    from coordinator.host.launcher_choice import launcher_at  # noqa: PLC0415

    openmpi = launcher_at(launcher).kind == "openmpi"
    unbound = ["--oversubscribe", "--bind-to", "none"] if openmpi else ["-bind-to", "none"]
    return [launcher, *unbound, "-n", str(ranks), *map(str, program)]


def shown(values, form=".2f"):
    least, most = (format(end(values), form) for end in (min, max))
    return f"{statistics.median(values):{form}} ({least}-{most})"


def tabled(*cells):
    """A row of a Markdown table, printed at once since the next may take long."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def headed(*headings):
    tabled(*headings)
    print(f"|{'---|' * len(headings)}", flush=True)
