"""The directory that keeps the kernels' machine code between runs.

Numba compiles a function again if the function's own file changes, but not if another file
changes whose functions it contains. It would then simulate an old waiting rule. So the name of
the directory is a digest of all compiled sources and of the compilers' versions: the directory
never holds code from other sources.
"""

import atexit
import hashlib
import os
import platform
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

from coordinator import policies, view
from coordinator.host.directories import check_own
from workloads import blocking, machine, options
from workloads.locks import lock_program

COMPILERS = ("numba", "llvmlite", "numpy")


def directory() -> Path:
    """A writable directory for code compiled from the sources as they are now; nobody else can write to it.

    It lies in $NUMBA_CACHE_DIR, else in the user's cache directory. If neither can have one, it is
    a temporary directory, which this process removes at its end.
    """
    name = f"kernels-{_digest()[:24]}"
    for base in _bases():
        path = base / name
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_own(path)  # code from there runs as us
            with tempfile.TemporaryFile(dir=path):
                return path
        except OSError:
            continue
    path = Path(tempfile.mkdtemp(prefix="lockstep-kernels-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def holds(function: str) -> bool:
    """Whether the directory holds ``function`` ("file.name"), compiled from the present sources."""
    return any(directory().glob(f"*/{function}-*.nbc"))


def _bases() -> list[Path]:
    places = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": "lockstep", "HOME": ".cache/lockstep"}
    return [Path(os.environ[name]) / below for name, below in places.items() if os.environ.get(name)]


def _digest() -> str:
    """SHA-256 of all compiled sources, the compilers' versions and Python's."""
    rooms = (Path(__file__).parent, Path(policies.__file__).parent)
    digest = hashlib.sha256()
    leaves = (Path(str(module.__file__)) for module in (blocking, view, lock_program, machine, options))
    for source in (*(file for room in rooms for file in sorted(room.rglob("*.py"))), *leaves):
        digest.update(source.name.encode())
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    versions = [f"{name} {version(name)}" for name in COMPILERS]
    digest.update(" ".join([platform.python_version(), *versions]).encode())
    return digest.hexdigest()
