"""A host on which ``lockstep tune`` takes no time, and files like the libraries that it looks into."""

import json
import socket
from pathlib import Path

from rank_results import rank_result

from harness.commands import tune
from harness.measure import as_started
from harness.measure.guarded_copies import CpuUsage
from harness.spec.settings import AS_IT_IS, TWO_PHASE
from harness.store import conditions
from workloads.native import Library

TEXTS = {
    "MPICH 4.0": "MPIR_CVAR_ASYNC_PROGRESS MPIR_CVAR_POLLS_BEFORE_YIELD",
    "MPICH 5.0": "MPIR_CVAR_POLLS_BEFORE_YIELD MPIR_CVAR_ENABLE_HEAVY_YIELD MPIR_CVAR_CH4_PROGRESS_THROTTLE"
    " MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT",
    "Open MPI 4.1": "ompi_mpi_init yield_when_idle",
    "Open MPI 5.0": "ompi_mpi_init yield_when_idle yield_strategy nanosleep_time",
    "Intel MPI 2021": "MPIR_CVAR_POLLS_BEFORE_YIELD I_MPI_WAIT_MODE I_MPI_THREAD_YIELD I_MPI_THREAD_SLEEP",
    "another": "MPI_Init",
    "OpenMP GNU": "OMP_NUM_THREADS OMP_WAIT_POLICY OMP_DYNAMIC GOMP_SPINCOUNT",
    "OpenBLAS 0.2": "OPENBLAS_NUM_THREADS",
}
"""What the libraries hold, of all the texts that are looked for."""


FILES = {"OpenMP GNU": "libgomp-a3.so.1", "OpenBLAS 0.2": "libscipy_openblas64_-32.so"}


def library_of(library, folder):
    made = folder / FILES.get(library, "libmpi.so")
    made.write_bytes(b"\x7fELF\0" + TEXTS[library].replace(" ", "\0").encode() + b"\0")
    return made


class Host:
    """Takes no time: seconds alone by setting, and how many times longer several at a time take."""

    def __init__(self, **seconds):
        self.seconds = seconds
        self.asked = []

    def __call__(self, setting, copies, limit_s):
        self.asked.append((setting, copies, limit_s))
        alone_s, factor = self.seconds[setting.replace(" ", "_").replace("-", "_")]
        wall_s = alone_s * (copies * factor if copies > 1 else 1) * (1 + 0.001 * len(self.asked))
        if limit_s is not None and wall_s > limit_s:
            return CpuUsage()
        return CpuUsage((wall_s,) * copies, (2 * wall_s / copies,) * copies)


RECORD = json.dumps(rank_result().recorded())


def tuning(lockstep, monkeypatch, tmp_path):
    """A function that runs ``lockstep tune`` on a ``Host``; it gives status, stdout, stderr."""
    mpi = library_of("Open MPI 4.1", tmp_path)
    made = Library(tmp_path / "front", (mpi,))
    monkeypatch.setattr(tune, "preload", lambda *ignored: (made, {"LD_PRELOAD": "front"}))
    monkeypatch.setattr(tune, "libraries_loaded", lambda argv: {Path("/lib/libc.so.6"): 3, mpi: 2})
    monkeypatch.setattr(conditions, "wanting", lambda: 0)
    for name in ("one", "two", "app"):
        (tmp_path / name).touch(mode=0o755)

    def command(host, *words, ranks=True, behind=("--", "mpiexec", "./app"), name="tune"):
        names = {(): AS_IT_IS, ("LD_PRELOAD",): TWO_PHASE, ("OMP_WAIT_POLICY",): "threads"}
        names["LD_PRELOAD", "OMP_WAIT_POLICY"] = "both"

        def made_up(copies, limit_s, look=None):
            kind = sorted(name for name in copies[0][1] if not name.startswith("LOCKSTEP_"))
            listeners = {variables.get("LOCKSTEP_LISTENER") for _, variables in copies} - {None}
            for listener in listeners if ranks else ():
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
                    address, key = listener.split(",")
                    own.sendto(f"{key} {RECORD}".encode(), f"\0{address}")
            return host(names.get(tuple(kind), "setting"), len(copies), limit_s)

        monkeypatch.setattr(as_started, "run_copies", made_up)
        return lockstep(name, *words, *behind)

    return command


def settings_of(document):
    return [row["scheduler"]["setting"] for row in document["rows"]]
