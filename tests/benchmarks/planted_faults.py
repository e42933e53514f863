"""How many faults that a developer might write into the product the tests notice.

    python -P tests/benchmarks/planted_faults.py RESULTS.jsonl
    python -P tests/benchmarks/planted_faults.py RESULTS.jsonl --count 20 --c 5 --seed 7 --only harness/store
    python -P tests/benchmarks/planted_faults.py RESULTS.jsonl --stages quick,slow

Plants one fault at a time in a clone of the last commit, and runs the tests that a developer would run: first
the quick tests of the file's room and those that import its module ("quick"), then the slow ones among them
("slow"), then all tests ("all"). A test counts if it fails twice with the fault and passes without it.
Where tests take too long with the fault and without it, as on a busy host, the stage is undecided.

Each stage of a fault becomes a line of RESULTS. A call does the chosen stages that are missing there, each
only of faults that went through the one before it and survived. So several calls may share the work: one has
``--stages quick`` and another ``--stages slow``, or one has ``--begin 100``.

Prints a table by room, and the faults that survived. Whether a survivor changes anything is for a reader to
judge: ``--verdicts FILE`` (JSON: a sentence for each number) leaves those without effect out of the shares.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import headed, parsed, tabled
from faults_in_code import Fault, draw, room, tests_of
from places import ROOT

DEFAULT_MARKS = "not soak and not slurm and not wheel and not site"
MARKS = {"quick": f"not slow and {DEFAULT_MARKS}", "slow": f"slow and {DEFAULT_MARKS}", "all": DEFAULT_MARKS}
STAGES = tuple(MARKS)
LIMIT_S = {"quick": 240, "slow": 600, "all": 1500}
"""No run of tests takes longer; a fault by which it would is found."""

TIME_LIMIT, NO_REPORT = "time limit", "no report"
"""In the place of tests that fail: all of them took too long, or one did and ended Python."""

HANG_S = {"quick": 100, "slow": 400, "all": 400}
"""No test of a stage takes longer, compilation of the simulator included."""


class Clone:
    """A clone of the last commit, and a Python that imports it, and all else from its own environment."""

    def __init__(self, folder: Path):
        self.root = folder / "lockstep"
        self._count = 0
        self.home = folder / "home"
        self.home.mkdir()
        subprocess.run(["git", "clone", "-q", ROOT, self.root], check=True)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        self.bin = folder / "venv" / "bin"
        outer = Path(sys.executable).parent
        for tool in outer.iterdir():
            if not (self.bin / tool.name).exists() and tool.name != "lockstep":
                (self.bin / tool.name).symlink_to(tool)
        script = f"#!{self.bin / 'python'}\nfrom harness.__main__ import main\nraise SystemExit(main())\n"
        (self.bin / "lockstep").write_text(script)
        (self.bin / "lockstep").chmod(0o755)
        (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
        (others,) = outer.parent.glob("lib/python*/site-packages")
        lines = [str(self.root), f"import site; site.addsitedir({str(others)!r})"]
        (packages / "clone.pth").write_text("\n".join(lines) + "\n")

    @contextmanager
    def planted(self, fault: Fault) -> Iterator[None]:
        """A file with its fault and a time of its own: what is compiled is kept by size and time."""
        path = self.root / fault.file
        sound, status = path.read_bytes(), path.stat()
        self._count += 1
        path.write_bytes(fault.planted(sound))
        os.utime(path, (status.st_atime, status.st_mtime + self._count))
        try:
            yield
        finally:
            path.write_bytes(sound)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def failing(self, tests: list[str], stage: str) -> set[str]:
        """The tests that fail, as pytest names them; where one hangs, or all take too long, that instead."""
        with tempfile.NamedTemporaryFile(suffix=".xml") as report:
            options = ["-q", "-n", "0", "-m", MARKS[stage], f"--junit-xml={report.name}"]
            hang = [f"faulthandler_timeout={HANG_S[stage]}", "faulthandler_exit_on_timeout=true"]
            options += ["-p", "no:cacheprovider", *(word for setting in hang for word in ("-o", setting))]
            command = [self.bin / "python", "-m", "pytest", *options, *tests]
            environment = {**os.environ, "HOME": str(self.home), "PATH": f"{self.bin}:{os.environ['PATH']}"}
            environment["NUMBA_CACHE_DIR"] = str(self.home)  # else each fault would compile kernels
            # Otherwise pytest would rewrite and compile all modules of tests again for each fault.
            environment.pop("PYTHONDONTWRITEBYTECODE", None)
            ended = _run(command, self.root, environment, LIMIT_S[stage])
            if not ended:
                return {TIME_LIMIT}
            try:
                cases = ET.parse(report.name).iter("testcase")
            except ET.ParseError:
                return {NO_REPORT}
            return {_name(case) for case in cases if {"failure", "error"} & {part.tag for part in case}}


def _name(case: ET.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _run(command: list[object], folder: Path, environment: dict[str, str], limit_s: float) -> bool:
    """Whether a command ends in time; afterwards none of its processes is left, stopped ones included."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True
    )
    family: dict[int, psutil.Process] = {}
    deadline = time.monotonic() + limit_s
    try:
        while process.poll() is None and time.monotonic() < deadline:
            _join(family, process.pid)
            time.sleep(0.2)
        return process.poll() is not None
    finally:
        _join(family, process.pid)
        process.kill()
        process.wait()
        for member in family.values():
            with suppress(psutil.NoSuchProcess):
                member.kill()


def _join(family: dict[int, psutil.Process], pid: int) -> None:
    """Remember the descendants of a process; what they start after its end is theirs to remove."""
    with suppress(psutil.NoSuchProcess):
        family.update({child.pid: child for child in psutil.Process(pid).children(recursive=True)})


def examine(clone: Clone, fault: Fault, stage: str, sound: dict[str, set[str]]) -> dict[str, object]:
    """The tests of a stage that find a fault, and how long they took."""
    tests = ["tests"] if stage == "all" else tests_of(clone.root, fault.file)
    begin, undecided = time.monotonic(), False
    with clone.planted(fault):
        failing = clone.failing(tests, stage)
        if failing:
            tests = _files(failing) or tests
            failing &= clone.failing(tests, stage)
    if failing:
        key = f"{stage} {' '.join(tests)}"
        if key not in sound:
            sound[key] = clone.failing(tests, stage)
        undecided = bool(failing & sound[key] & {TIME_LIMIT, NO_REPORT})
        failing -= sound[key]
    seconds = round(time.monotonic() - begin)
    return {"stage": stage, "failing": sorted(failing), "undecided": undecided, "seconds": seconds}


def _files(failing: set[str]) -> list[str]:
    """The files of failing tests; none where it is not a test that failed."""
    if any("::" not in name for name in failing):
        return []
    return sorted({name.partition("::")[0].replace(".", "/") + ".py" for name in failing})


class Outcome(NamedTuple):
    """A fault, for each stage that it went through the tests that found it, and the undecided stages."""

    number: int
    fault: Fault
    failing: dict[str, list[str]]
    undecided: list[str]

    @property
    def found(self) -> str | None:
        return next((stage for stage, tests in self.failing.items() if tests), None)

    def wants(self, stages: list[str]) -> str | None:
        """The stage that is the next one of the fault, if it is among the chosen ones."""
        following = next((stage for stage in STAGES if stage not in self.failing), None)
        return following if following in stages and not self.found else None


def outcomes(faults: list[Fault], results: Path) -> list[Outcome]:
    """What the lines of results say of each fault."""
    drawn = [Outcome(number, fault, {}, []) for number, fault in enumerate(faults)]
    for line in results.read_text().splitlines() if results.exists() else []:
        entry = json.loads(line)
        _, fault, failing, undecided = drawn[entry["number"]]
        if (entry["file"], entry["line"], entry["kind"]) != (fault.file, fault.line, fault.kind):
            raise SystemExit(f"{results}: of another draw or commit; give another file")
        failing[entry["stage"]] = entry["failing"]
        undecided += [entry["stage"]] if entry.get("undecided") else []
    return drawn


def table(drawn: list[Outcome], verdicts: dict[str, str]) -> None:
    examined = [outcome for outcome in drawn if outcome.failing]
    headed(
        "room",
        "faults",
        "no change",
        "found by quick tests",
        "by slow ones",
        "by all others",
        "undecided",
        "survived",
    )
    rooms = sorted({room(outcome.fault.file) for outcome in examined})
    for name in [*rooms, "all"]:
        of_room = [outcome for outcome in examined if name in ("all", room(outcome.fault.file))]
        same = [outcome for outcome in of_room if not outcome.found and str(outcome.number) in verdicts]
        found = [sum(outcome.found == stage for outcome in of_room) for stage in STAGES]
        undecided = sum(bool(one.undecided) and not one.found and one not in same for one in of_room)
        changing = len(of_room) - len(same)
        shares = [f"{count} ({count / changing:.0%})" if changing else "0" for count in found]
        tabled(name, len(of_room), len(same), *shares, undecided, changing - undecided - sum(found))
    print()
    for number, fault, failing, undecided in (outcome for outcome in examined if not outcome.found):
        ends = {stage: "undecided" if stage in undecided else "survived" for stage in failing}
        reason = verdicts.get(str(number), ", ".join(f"{end} {stage}" for stage, end in ends.items()))
        print(f"- {number}: {fault.file}:{fault.line}, {fault.kind}: {reason}")


def main() -> None:
    options = parsed(
        __doc__,
        _results={"type": Path},
        count=200,
        c=40,
        seed=1,
        only="",
        begin=0,
        stages=",".join(STAGES),
        verdicts={"type": Path, "default": None},
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so nothing is left of it
    python = draw(ROOT, options.count - options.c, options.seed, c=False, only=options.only)
    native = draw(ROOT, options.c, options.seed, c=True, only=options.only)
    faults, stages = [*python, *native], options.stages.split(",")

    def verdicts() -> dict[str, str]:
        return json.loads(options.verdicts.read_text()) if options.verdicts else {}

    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        clone, sound = Clone(Path(folder)), {}
        for number, fault in enumerate(faults[options.begin :], options.begin):
            while stage := outcomes(faults, options.results)[number].wants(stages):
                if str(number) in verdicts():
                    break
                entry = examine(clone, fault, stage, sound)
                place = {"number": number, "file": fault.file, "line": fault.line, "kind": fault.kind}
                with options.results.open("a") as results:
                    results.write(json.dumps(place | entry) + "\n")
                end = "found" if entry["failing"] else "undecided" if entry["undecided"] else "survived"
                print(f"{number}: {fault.file}:{fault.line}, {fault.kind}: {end} {stage}", file=sys.stderr)
    table(outcomes(faults, options.results), verdicts())


if __name__ == "__main__":
    main()
