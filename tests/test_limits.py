"""Numbers out of range, files that are none, closed streams: a message and a status, never a traceback."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from harness import document, experiment, overrides
from harness.simulator.jobs import experiment as job_experiment
from workloads.bounds import BOUNDS
from workloads.validation import InputError

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


def fields() -> list[str]:
    """A key of ``--set`` for each number that can be given."""
    tables = {"jobs": "jobs.2.", "schedulers": "schedulers.1.", "": ""}
    named = (name.rpartition(".") for name in BOUNDS if not name.startswith("-"))
    return [tables.get(table, f"{table}.") + key for table, _, key in named]


def checked(text: str, settings: list[str], quick: bool) -> str:
    """Pass an experiment through all checks up to where work would begin; returns what is said."""
    try:
        written = document.parse(text, "x.toml").overridden(map(overrides.parse, settings))
        if "level" in written.data:
            job_experiment.load(written)
            return ""
        Path("x.toml").write_text(text, encoding="utf-8", errors="surrogateescape")
        wanted = experiment.load("x.toml", settings=settings, quick=quick)
        assert len(wanted.digest) == 64
        for cell in wanted.cells:
            for job in cell.jobs():
                assert job.program.processes > 0
    except InputError as error:
        said = str(error)
        assert error.key and error.rule and error.remedy and len(said) < 100_000
        said.encode("utf-8", "backslashreplace")
        return said
    return ""


def mutated(chance: random.Random) -> tuple[str, list[str], bool]:
    """An experiment that is not quite right, or is: a file and what ``--set`` changes."""
    text = chance.choice([PROCESSES, PROCESSES, LEVEL])
    kind = chance.randrange(4)
    if kind == 0:  # a value of the file
        spots = list(re.finditer(r"= ([\w.\"]+)", text))
        spot = chance.choice(spots)
        text = text[: spot.start(1)] + chance.choice(NUMBERS + OTHERS) + text[spot.end(1) :]
    elif kind == 1:  # any characters of the file
        for _ in range(chance.choice([1, 2, 10])):
            at = chance.randrange(len(text))
            text = (
                text[:at]
                + chance.choice(["", "[", "]", '"', "=", "\n", "\0", "9", "é", "{", "."])
                + text[at + 1 :]
            )
    settings = []
    for _ in range(chance.choice([1, 1, 2]) if kind > 1 else 0):
        key = chance.choice(fields() + KEYS)
        value = chance.choice(NUMBERS + OTHERS)
        settings.append(
            f"{key}={value}" if chance.random() < 0.9 else chance.choice([key, value, f"{key}=[{value}]"])
        )
    return text, settings, chance.random() < 0.3


def fuzz(seeds: range, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said = 0
    for seed in seeds:
        text, settings, quick = mutated(random.Random(seed))
        begin_s = time.monotonic()
        try:
            said += bool(checked(text, settings, quick))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {[one[:200] for one in settings]}") from error
        assert time.monotonic() - begin_s < 5, f"seed {seed} takes long: {settings}"
    assert len(seeds) // 4 < said < len(seeds)


@pytest.mark.slow
def test_no_experiment_ends_in_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz(range(400), tmp_path, monkeypatch)


@pytest.mark.soak
def test_ten_thousand_end_in_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fuzz(range(10_000), tmp_path, monkeypatch)
