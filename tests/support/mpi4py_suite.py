"""Run mpi4py's own tests with and without two-phase waits, and compare what each test gives on each rank.

``python tests/support/mpi4py_suite.py --ranks 2`` downloads the source distribution of the installed mpi4py
with pip, unless ``--suite`` names its directory of tests. Each module is a job: one that does not end costs
its time limit only. Exits with 1 if a test that passes as it is does not pass two-phase.
"""

import argparse
import os
import subprocess
import sys
import tarfile
import time
import unittest
from contextlib import contextmanager, nullcontext
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

LOCKSTEP = (sys.executable, "-P", "-m", "harness")

ERRONEOUS = ("testIAgree",)
"""Left out in both runs. One rank calls a nonblocking collective operation before a blocking one, and the
others after it. MPI forbids that (MPI 4.1, section 6.12); its libraries happen to let it pass."""

Outcomes = dict[str, str]
"""Of each test on each rank, by their names; of one that did not end, "begun"."""


@contextmanager
def suite(pip):
    """The directory of the tests of the mpi4py that is installed, as it was published."""
    version = metadata.version("mpi4py")
    with TemporaryDirectory(prefix="ls-mpi4py-") as name:
        options = ["download", "-q", "--no-deps", "--no-binary", "mpi4py", "-d", name]
        subprocess.run([*pip, *options, f"mpi4py=={version}"], check=True)
        with tarfile.open(next(Path(name).glob("*.tar.gz"))) as archive:
            archive.extractall(name, filter="data")
        yield Path(name, f"mpi4py-{version}", "test")


class _Written(unittest.TestResult):
    """Writes a line when a test begins, and one when it has ended."""

    def __init__(self, name):
        super().__init__()
        self._file = Path(name).open("w", buffering=1)  # noqa: SIM115 - it ends with the process

    def _write(self, test, outcome, error=None):
        name = test.id() if isinstance(test, unittest.TestCase) else str(test)
        if error is not None:
            print(name, self._exc_info_to_string(error, test), file=sys.stderr)  # type: ignore[attr-defined]
        self._file.write(f"{outcome} {name}\n")

    def startTest(self, test):
        self._write(test, "begun")

    def addSuccess(self, test):
        self._write(test, "passed")

    def addError(self, test, err):
        self._write(test, "failed", err)

    addFailure = addError

    def addSkip(self, test, reason):
        self._write(test, "skipped")

    def addExpectedFailure(self, test, err):
        self._write(test, "expected")

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._write(subtest, "failed", err)


class _Loader(unittest.TestLoader):
    def getTestCaseNames(self, testCaseClass):
        return [name for name in super().getTestCaseNames(testCaseClass) if name not in ERRONEOUS]


def be_rank(folder, module):
    """Run a module of tests as one rank."""
    sys.path.insert(0, os.environ["MPI4PY_SUITE"])
    sys.modules.update({"cupy": None, "numba": None})  # type: ignore[dict-item]
    from mpi4py import MPI  # noqa: PLC0415 - here we are a rank

    tests = _Loader().loadTestsFromName(module)
    tests.run(_Written(f"{folder}/{MPI.COMM_WORLD.Get_rank()}"))


class Suite:
    """The tests, and how to start ranks for them; ``before`` is a command before the launcher's."""

    def __init__(self, place, options):
        self.place = place.resolve()
        self.limit_s = options.limit_s
        self.launcher = [*options.launcher.split(), "-n", str(options.ranks)]
        libmpi = {"MPI4PY_LIBMPI": options.libmpi} if options.libmpi else {}
        self.environment = os.environ | libmpi | {"MPI4PY_SUITE": str(self.place)}

    def run(self, module, before=(), **extra):
        """The outcomes of a module, run with more variables, and the seconds that it took."""
        with TemporaryDirectory(prefix="ls-mpi4py-") as folder:
            me = [sys.executable, str(Path(__file__).resolve()), "--rank", folder, module]
            limited = ["timeout", "-k", "10", str(self.limit_s), *before, *self.launcher, *me]
            begun = time.monotonic()
            done = subprocess.run(
                limited, env=self.environment | extra, capture_output=True, text=True, check=False
            )
            taken_s = time.monotonic() - begun
            found = {}
            for file in Path(folder).iterdir():
                for line in file.read_text().splitlines():
                    outcome, _, name = line.partition(" ")
                    if found.get(key := f"{name} on rank {file.name}") != "failed":
                        found[key] = outcome
        if done.returncode or "failed" in found.values():
            print(f"    status {done.returncode}", *done.stderr.splitlines()[-40:], sep="\n    | ")
        return found, taken_s


def compare(suite, modules, knobs, options):
    """How many tests pass as it is and not two-phase; prints which."""
    lost = 0
    total_s = [0.0, 0.0]
    passed = [0, 0]
    for module in modules:
        plain, plain_s = suite.run(module, **knobs)
        ours, ours_s = suite.run(module, (*LOCKSTEP, "exec", *options, "--"))
        counts = [sum(outcome == "passed" for outcome in run.values()) for run in (plain, ours)]
        print(f"{module}: {told(counts, (plain_s, ours_s), '.1f')}", flush=True)
        total_s = [total_s[0] + plain_s, total_s[1] + ours_s]
        passed = [passed[0] + counts[0], passed[1] + counts[1]]
        for name, outcome in sorted(plain.items()):
            if outcome == "passed" and ours.get(name) != "passed":
                lost += 1
                print(f"    {name}: {ours.get(name, 'missing')}", flush=True)
    print(
        f"{len(modules)} modules: {told(passed, total_s, '.0f')}, {total_s[1] / total_s[0]:.2f} times as long"
    )
    print(f"{lost} lost")
    return lost


def told(passed, seconds, form):
    plain, ours = (f"{took_s:{form}} s" for took_s in seconds)
    return f"{passed[0]} passed as it is in {plain}, {passed[1]} two-phase in {ours}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", type=Path, help="the directory test/ of mpi4py's source distribution")
    parser.add_argument("--pip", default=f"{sys.executable} -m pip")
    parser.add_argument("--launcher", default="mpiexec", help="with its options")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--libmpi", help="the MPI library that mpi4py is to load")
    parser.add_argument("--knob", action="append", default=[], help="NAME=VALUE, for the run as it is")
    parser.add_argument("--waiting", default="global-adaptive")
    parser.add_argument("--limit-s", type=float, default=300)
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    knobs = dict(knob.split("=", 1) for knob in options.knob)
    with nullcontext(options.suite) if options.suite else suite(options.pip.split()) as place:
        modules = options.modules or sorted(path.stem for path in place.glob("test_*.py"))
        return bool(compare(Suite(place, options), modules, knobs, ["--waiting", options.waiting]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        be_rank(*sys.argv[2:])
    else:
        sys.exit(main())
