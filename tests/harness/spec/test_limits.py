"""Numbers out of range, files that are none, closed streams: a message and a status, never a traceback."""

import json
import random
import re
import subprocess
import sys
import time
from dataclasses import fields as fields_of
from pathlib import Path

import pytest
from places import ROOT

from coordinator import policies
from coordinator.migration import Migration
from coordinator.view import Submitter
from harness.spec import experiment
from harness.spec.job_models import KINDS
from harness.spec.job_source import JobSource, Log
from harness.spec.jobs import JobGroup
from harness.spec.submission import Submission
from workloads.bounds import BOUNDS
from workloads.locks.lock_program import LockProgram
from workloads.options import Options, Remedy
from workloads.parameters import Bounds, ListOf, parameters_of
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import SINGLE, Command

PROCESSES = """
processors = 2
repeats = 1
seed = 1
lease_s = 2

[[jobs]]
count = 2
arrival_s = 0.5
program = { pattern = "NEWS", processes = 2, granularity_us = 1000, imbalance = 0.5, dedicated_s = 0.01 }

[[jobs]]
command = ["{launcher}", "-n", "2", "./app"]
dedicated_s = 10

[[jobs]]
kind = "interactive"
burst_ms = 1
think_ms = 2
bursts = 3

[[schedulers]]
policy = "gang"
quantum_ms = 20

[[schedulers]]
policy = "multilevel-two-queue"
slots = [1, 2]

[machine]
latency_us = 10
local = "round-robin"
quantum_ms = 100

[sweep]
"program.read_gap_us" = [1, 2]

[slurm]
time = 10

[quick]
repeats = 1
"""

LEVEL = """
level = "jobs"
processors = 16
warm_up = 0
tau_s = 10
half_width = 0.5
replications = 2

[model]
count = 100
load = 0.5
shares = [0.5, 0.5]
means_s = [1, 2]
maxima = [4, 16]
mu = [0.5, inf]

[[schedulers]]
policy = "easy"
"""

SEVERAL = """
1e16 1e300 1e-300 -1e300 1e308 1e999 inf -inf nan -0.0 0 -1 0.5 1 2 3.5 1000 1e9 1_0 5e-324 65536 1048577
"""
NUMBERS = [*SEVERAL.split(), "9" * 19, "-" + "9" * 19, "9" * 309, "9" * 4301, "0x" + "f" * 6000]
ODD = """
"" "a" "\\u0000" "\udcff" true [] {} [[]] [1,[2]] {"a"=1} 1979-05-27 24:00:00 2020-01-01T00:00:00Z
\u00b2 \u0663 [1,2,3,4,5,6,7,8] ["x"] [nan] [1e300] a = \\ '
"""
OTHERS = [*ODD.split(), "[" * 2000, "[" * 30 + "]" * 30, "{a=" * 500 + "1" + "}" * 500]
OTHERS += [f"[{'9' * 400}]", f"'{'x' * 5000}'"]
NAMES = """
jobs.\u00b2 jobs.0.program machine sweep.program.imbalance sweep.machine.latency_us sweep hosts name
machine.dispatch_table schedulers.0.policy jobs.1.command jobs.1.processes slurm.mem slurm.container
slurm.setup program.phases quick quick."program.dedicated_s" jobs.2.kind level jobs.0.arrival_s
"""
KEYS = [*NAMES.split(), "jobs." + "9" * 5000, "jobs[" + "9" * 30 + "]", ".".join(["a"] * 3000), "a b", ""]
PIECES = ["", "[", "]", '"', "=", "\n", "\0", "9", "\u00e9", "{", "."]


FIRST = {"jobs": "jobs.2.", "schedulers": "schedulers.1."}


def bounds_of(prefix, *kinds):
    """The widest bounds of all numbers that are fields of ``kinds``, by their names after ``prefix``."""
    found = {}
    for name, rule, _ in (parameter for kind in kinds for parameter in parameters_of(kind)):
        bounds = rule.entry if isinstance(rule, ListOf) else rule
        if isinstance(bounds, Bounds):
            key = f"{prefix}.{name}" if prefix else name
            known = found.setdefault(key, bounds)
            least = min(bounds.minimum, known.minimum)
            most = max(bounds.maximum, known.maximum)
            found[key] = Bounds(least, most, bounds.whole)
    return found


def declared():
    """The bounds of all numbers of a file and of options, by their names there."""
    return {
        **BOUNDS,
        **bounds_of("jobs", JobGroup, Submitter, *SINGLE.values(), Command),
        **bounds_of("program", LockProgram),
        **bounds_of("slurm", Submission),
        **bounds_of("", JobSource),
        **bounds_of("log", Log),
        **bounds_of("model", *KINDS.values()),
        **bounds_of("migration", Migration),
        **bounds_of("schedulers", *policies.known().values(), Options),
        **bounds_of("schedulers.remedy", Remedy),
    }


def fields():
    """A key of ``--set`` for each number that can be given."""
    named = (name for name in declared() if not name.startswith("-"))
    return [re.sub(r"^(jobs|schedulers)\.", lambda found: FIRST[found[1]], name) for name in named]


def checked(text, settings, quick):
    """Pass an experiment through all checks up to where work would begin; returns what is said."""
    try:
        Path("x.toml").write_text(text, encoding="utf-8", errors="surrogateescape")
        wanted = experiment.load("x.toml", settings=settings, quick=quick)
        assert len(wanted.digest) == 64
        for cell in wanted.cells:
            for job in cell.jobs():
                assert job.program.processes > 0
    except InputError as error:
        message = str(error)
        assert error.key and error.rule and error.remedy and len(message) < 100_000
        message.encode("utf-8", "backslashreplace")
        return message
    return ""


def mutated(chance):
    """An experiment that is not quite right, or is: a file and what ``--set`` changes."""
    text = chance.choice([PROCESSES, PROCESSES, LEVEL])
    if chance.random() < 0.25:
        for _ in range(chance.choice([1, 2, 10])):
            at = chance.randrange(len(text))
            text = text[:at] + chance.choice(PIECES) + text[at + 1 :]
        return text, [], False
    keys = chance.choices(fields() + KEYS, k=chance.choice([1, 1, 2]))
    settings = [f"{key}={chance.choice(NUMBERS + OTHERS)}" for key in keys]
    return text, settings, chance.random() < 0.3


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.soak)])
def test_no_experiment_ends_in_a_traceback(tmp_path, monkeypatch, count):
    monkeypatch.chdir(tmp_path)
    said = 0
    for seed in range(count):
        text, settings, quick = mutated(random.Random(seed))
        begin_s = time.process_time()
        try:
            said += bool(checked(text, settings, quick))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {[one[:200] for one in settings]}") from error
        assert time.process_time() - begin_s < 5, f"seed {seed} takes long: {settings}"
    assert count // 4 < said < count


def beyond(bounds):
    """The numbers just outside the bounds."""
    return bounds.minimum - (1 if bounds.whole else 1e-9 + abs(bounds.minimum) / 1e9), bounds.maximum * 2 + 1


def test_no_number_out_of_its_bounds_is_taken(tmp_path, monkeypatch):
    """A key of another kind of job or experiment than those here is refused, too."""
    monkeypatch.chdir(tmp_path)
    keys = set()
    for key, bounds in zip(fields(), (b for n, b in declared().items() if n[0] != "-"), strict=True):
        for number in beyond(bounds):
            answers = [checked(text, [f"{key}={number!r}"], quick=False) for text in (PROCESSES, LEVEL)]
            keys |= {key for answer in answers if "number from" in answer}
            assert any(answers), f"{key} = {number}"
    assert len(keys) > len(fields()) / 2, sorted({*fields()} - keys)


SMALL = """
processors = 2
repeats = 1

[[jobs]]
program = { pattern = "NEWS", processes = 2, granularity_us = 1000, dedicated_s = 0.01 }

[[schedulers]]
policy = "gang"
"""


def said(command, tmp_path):
    """Status and stderr of a shell's command, in which LOCKSTEP stands for ours."""
    (tmp_path / "x.toml").write_text(SMALL)
    line = command.replace("LOCKSTEP", f"{sys.executable} -P -m harness")
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=900,  # compiling the simulator may take minutes
        check=False,
    )
    assert "Traceback" not in result.stderr and "Exception ignored" not in result.stderr, result.stderr
    return result.returncode, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command, status, complaint",
    [
        ("LOCKSTEP policies >&-", 2, "standard output is closed"),
        ("LOCKSTEP policies >&- 2>&-", 2, ""),
        ("LOCKSTEP policies > /dev/full", 1, "cannot write the results to standard output: No space left"),
        ("LOCKSTEP --version > /dev/full", 1, "cannot write the results"),
        ("LOCKSTEP policies 2>&- <&-", 0, ""),
        ("LOCKSTEP policies 2> /dev/full", 0, ""),
        ("LOCKSTEP policies | true", 1, ""),
        ("PYTHONIOENCODING=ascii LOCKSTEP policies", 0, ""),
    ],
)
def test_streams_that_cannot_be_written_to(tmp_path, command, status, complaint):
    output, err = said(command, tmp_path)
    assert output == status and complaint in err


@pytest.mark.parametrize("value", ["", "\u00b2", "1", "-5"])
def test_odd_widths(lockstep, monkeypatch, value):
    monkeypatch.setenv("COLUMNS", value)
    assert lockstep("policies")[0] == 0


def test_the_documents_give_all_bounds(golden):
    tables = sorted(declared().items(), key=lambda item: item[0].rpartition(".")[0])
    lines = [f"| `{name}` | {written(bounds)} |" for name, bounds in tables]
    golden.table("reference/bounds.md", "| number | from, to |", lines)


def test_the_documents_give_every_key_with_its_default():
    page = (ROOT / "docs" / "reference" / "experiment-file.md").read_text()
    rows = re.findall(r"(?m)^\| (`[^|]+`) \|(.*)\|$", page)
    defaults = {
        key: rest.rpartition("|")[2]
        for names, rest in reversed(rows)
        for key in re.findall(r"`(\w+)`", names)
    }
    locks = {one.name: one for one in fields_of(LockProgram)}
    for field in (locks | {one.name: one for one in (*fields_of(Program), *fields_of(Options))}).values():
        assert field.name in defaults, field.name
        if isinstance(field.default, int | float | str):
            shown = json.dumps(field.default).strip('"').removesuffix(".0")
            assert shown in re.findall(r"[\w.-]+", defaults[field.name]), field.name


def written(bounds):
    """The ends as docs/reference/bounds.md has them."""
    low = bounds.minimum
    high = bounds.maximum
    return f"{low} to {high}" if bounds.whole else f"{low:g} to {high:g}"


POINTS = f"sweep.program.granularity_us={list(range(1, 102))}"
MORE_POINTS = f"sweep.program.read_gap_us={list(range(1, 102))}"
SEQUENTIAL = "{kind='sequential',work_s=1,count=1000}"


@pytest.mark.parametrize(
    "settings, complaint",
    [
        ([POINTS, MORE_POINTS], "more than 10000 points"),
        ([f"jobs=[{SEQUENTIAL},{SEQUENTIAL}]"], "are 2000 with 2000"),
        (["repeats=10000", POINTS], "makes 1010000 runs"),
        (["jobs.0.program={phases=1000000000,granularity_us=1e6}"], "must end within 1e+07 s alone"),
    ],
)
def test_a_whole_experiment_has_its_most(tmp_path, monkeypatch, settings, complaint):
    monkeypatch.chdir(tmp_path)
    assert complaint in checked(SMALL, settings, False)
