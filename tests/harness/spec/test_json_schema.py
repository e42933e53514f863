"""The JSON Schema of experiment files: valid is what Lockstep accepts, but for what a schema cannot say."""

import copy
import json
import random
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import pytest
from jsonschema import Draft4Validator
from places import ROOT

from coordinator import policies
from coordinator.migration import Migration
from coordinator.policies import registry
from coordinator.policies.gang import Gang
from coordinator.view import Submitter
from harness.spec import experiment_source, overrides
from harness.spec.experiment import load
from harness.spec.job_models import KINDS
from harness.spec.job_source import JobSource, Log
from harness.spec.jobs import JobGroup
from harness.spec.json_schema import experiment_schema
from harness.spec.log_window import Window
from harness.spec.submission import Submission
from workloads import machine
from workloads.bounds import BOUNDS
from workloads.locks.lock_program import LockProgram
from workloads.options import Options, Remedy
from workloads.parameters import Bounds, Flag, ListOf, OneOf, parameters_of
from workloads.program import Program
from workloads.validation import InputError
from workloads.work import SINGLE, Command

EXPERIMENTS = ROOT / "harness" / "experiments"

FILES = 300

UNSAID = {
    "what `[quick]` sets, and whether it fits the rest of the file": (
        ("three-jobs", 'quick={"program.dedicated_s"=0}'),
        (r"with \[quick\]", r"cannot be combined with dedicated_s.* quick"),
    ),
    "whether what `[sweep]` sets fits the rest of the file, and what the file lacks because of it": (
        ("three-jobs", 'sweep={"program.locks"=[1, 2]}'),
        (r"sweep\.\"", r"(needs|known here|is missing|cannot (be combined|act)).* sweep"),
    ),
    "numbers that depend on other numbers: sums, products, sizes, and which one is larger": (
        ("kinds", "repeats={min=5, max=3}"),
        (
            r"must be at most (max|[\d.]+( under|, one process|, which|,? (and|with)))|must end within",
            r"is below start_load|processes = \d+: must be \d+, which|makes \d+ runs",
            r"processors of the machine|must be one of \d+ processors|the machine has \d+ processors",
            r"\]\[1\] = \d+: must be a whole number from 1|must have an entry for each of means_s",
        ),
    ),
    "two `[[schedulers]]` that are the same": (
        ("three-jobs", 'schedulers=[{policy="none"}, {policy="none", waiting="spin"}]'),
        (r"cannot be the same as schedulers",),
    ),
    "parameters of a policy that need others of its parameters": (
        ("three-jobs", 'schedulers=[{policy="gang", packing="continuous", migrate=true}]'),
        (r"has no pages", r"in the packing"),
    ),
    "how commands behind a launcher, lists of hosts and time limits of Slurm are written": (
        ("kinds", "slurm.time=a"),
        (r"must have -n", r"must begin with the name", r"time limit of sbatch"),
    ),
    "whether a file exists, and what it holds": (
        ("nasa-day", 'log.file="nothing.swf"'),
        (r"cannot be read", r"must be a readable file", r"line \d+"),
    ),
    "`nan`, which is a number to a schema": (("three-jobs", "precision=nan"), (r"= nan:",)),
}
"""What a schema cannot say: an example of each kind, and the errors that Lockstep tells then."""

OTHERS = {
    "kinds": """
        processors = 2
        repeats = { min = 3, max = 5 }
        lease_s = 3
        precision = 0.1
        dedicated = "two-phase"
        seed = 7
        [[jobs]]
        count = 2
        user = "ann"
        account = "physics"
        nice = 3
        program = { pattern = "LOCK", section_us = 5, locks = 2, lock = "mcs", phases = 100 }
        [[jobs]]
        arrival_s = 0.5
        estimate_s = 3
        command = ["{launcher}", "-n", "{processes}", "./app"]
        processes = 2
        waits = "two-phase"
        environment = { OMP_NUM_THREADS = "2" }
        record = true
        [[jobs]]
        kind = "sequential"
        work_s = 1
        [[jobs]]
        kind = "interactive"
        burst_ms = 1
        think_ms = 5
        bursts = 10
        [[schedulers]]
        policy = "gang"
        mechanism = "signals"
        remedy = { kind = "defer", deferrals = 3 }
        [[schedulers]]
        policy = "implicit"
        imbalance_estimate = "arrival-spread"
        quota_processors = 1.5
        bind = "job"
        [slurm]
        nodes = 1
        ntasks-per-node = 2
        time = 10
        mem = "4G"
        extra = ["--hint=nomultithread"]
        modules = ["openmpi"]
        [quick]
        repeats = 3
        """,
    "settings": """
        timeout_factor = 5
        repeats = 3
        [[jobs]]
        count = 2
        command = ["mpiexec", "-n", "2", "./app", ""]
        [[schedulers]]
        setting = "as it is"
        [[schedulers]]
        setting = "two-phase"
        waiting = "fixed"
        spin_switches = 3
        [[schedulers]]
        setting = "heavy yield"
        [[schedulers]]
        setting = "my own"
        environment = { OMPI_MCA_mpi_yield_when_idle = "1" }
        """,
    "owners": """
        processors = 4
        [[jobs]]
        program = { pattern = "news", dedicated_s = 1, checkpoint_phases = 10 }
        [[owners]]
        processors = [0, 1]
        times_s = [[10, 20], [30, 35]]
        load = 0.5
        [[owners]]
        processors = [2]
        present_s = 600
        away_s = 60
        [[schedulers]]
        policy = "condor"
        [[schedulers]]
        policy = "owner-share"
        power = 0.3
        """,
    "machine": """
        processors = 4
        [machine]
        local = "round-robin"
        quantum_ms = 20
        topology = "mesh"
        sides = [2, 2]
        hop_latency_us = 2
        lost = [3]
        [[jobs]]
        program = { pattern = "TASKS", processes = 2, phases = 100, parallelism = [[10, 1], [40, 2]] }
        [[jobs]]
        program = { pattern = "TRANSPOSE", processes = 2, dedicated_s = 1, malleable = true }
        [[schedulers]]
        policy = "process-control"
        [sweep]
        "program.granularity_us" = [100, 1000]
        "machine.latency_us" = [1, 10]
        "schedulers.0.waiting" = ["spin", "immediate"]
        """,
}
"""Files with keys that no built-in experiment has."""

SLOW = ("policies-alike",)


def bases():
    """The tables of the files that are changed, by name."""
    written = {name: path.read_text(encoding="utf-8") for name, path in experiment_source.built_in().items()}
    return {name: tomllib.loads(text) for name, text in (written | OTHERS).items() if name not in SLOW}


def near(rule):
    """Values that a rule allows and refuses, next to each other."""
    match rule:
        case Bounds(minimum, maximum, whole):
            step = 1 if whole else 1e-9
            inside = [minimum, maximum, min(minimum + 2, maximum)]
            return [*inside, minimum - step, maximum * 2 + step, minimum + 0.5]
        case OneOf():
            return [*rule.names, "no such name"]
        case ListOf(entry):
            ones = near(entry)
            return [[one] for one in ones] + [ones[:1] * 2, ones[:1] * 3, []]
        case Flag():
            return [True, False, 1, "true"]
    return ["", "a", " ", "a\nb", 3, {}, {"physics": 3}, "times 1 to 5", [0.5, float("inf")]]


ODD = [
    -1,
    0,
    float("nan"),
    2,
    0.5,
    1e9,
    True,
    "",
    "x",
    "two-phase",
    [],
    [1, 2],
    ["a"],
    {},
    {"a": 1},
    [[1, 2]],
]


def rules_of(*kinds):
    return [(name, near(rule)) for kind in kinds for name, rule, _ in parameters_of(kind)]


TABLES = {
    "": [(key, near(bound)) for key, bound in BOUNDS.items() if "." not in key and "-" not in key]
    + [("dedicated", near(OneOf(("spinning", "two-phase")))), *rules_of(JobSource)],
    "jobs": rules_of(JobGroup, Submitter, Command, *SINGLE.values()),
    "program": rules_of(Program, LockProgram),
    "schedulers": [
        *rules_of(Options),
        ("mechanism", ["auto", "signals", "realtime", "x"]),
        ("bind", [True, False, "job", "x"]),
    ],
    "remedy": rules_of(Remedy),
    "machine": [(key, near(rule)) for key, rule in machine.RULES.items()]
    + [("quantum_ms", [10, 15, 20]), ("sides", [[2, 2], [4]]), ("lost", [[0], [0, 0], [9999]])],
    "owners": [(key, near(BOUNDS[f"owners.{key}"])) for key in ("present_s", "away_s", "load")],
    "slurm": [
        *rules_of(Submission),
        *((key, [*near(None), 5]) for key in ("time", "mem", "setup", "container")),
    ],
    "log": [*rules_of(Log, Window), ("from", [0, -1, 5])],
    "model": [*rules_of(*KINDS.values()), ("kind", [*KINDS, "x"])],
    "migration": rules_of(Migration),
    "repeats": [("min", [1, 5, 0]), ("max", [3, 20_000])],
    "sweep": [
        (key, [[1], [1, 1], [], 3]) for key in ("program.locks", "processors", "machine.x", "jobs.0.count")
    ],
}
"""Keys with their values, by the table in which they are."""


def below(value, name=""):
    """All tables in a value, each with its name."""
    if isinstance(value, dict):
        yield name, value
        for key, part in value.items():
            yield from below(part, key)
    for part in value if isinstance(value, list) else ():
        yield from below(part, name)


def changed(random_of, files):
    """The tables of a file with one change or two, of which some are for the worse."""
    data = copy.deepcopy(files[random_of.choice(sorted(files))])
    for _ in range(random_of.choice((1, 1, 2))):
        name, table = random_of.choice(list(below(data)))
        known = list(TABLES.get(name, []))
        if name == "schedulers":
            own = policies.known().get(str(table.get("policy")), Gang)
            other = policies.known()[random_of.choice(sorted(policies.known()))]
            known += rules_of(own, own, own, other)
        what = random_of.random()
        if what < 0.6 and known:
            key, values = random_of.choice(known)
            table[key] = random_of.choice(values)
        elif what < 0.75 and table:
            table[random_of.choice(sorted(table))] = random_of.choice(ODD)
        elif what < 0.9 and table:
            del table[random_of.choice(sorted(table))]
        else:
            other = files[random_of.choice(sorted(files))]
            key = random_of.choice(sorted(other))
            data[key] = copy.deepcopy(other[key])
    return data


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(json.dumps(experiment_schema(), allow_nan=False))
    Draft4Validator.check_schema(schema)
    return Draft4Validator(schema)


def refusal(data):
    """What Lockstep says of a file that it refuses; empty if it accepts it."""
    try:
        load(data)
    except InputError as error:
        return str(error)
    return ""


def unsaid(told, data):
    """Which of UNSAID are the reasons of a refusal."""
    text = " ".join((told, *(key for key in ("quick", "sweep") if key in data)))
    return [reason for reason, (_, forms) in UNSAID.items() if any(re.search(one, text) for one in forms)]


@pytest.mark.parametrize("name", sorted(experiment_source.built_in()))
def test_built_in_experiments_are_valid_but_the_one_that_needs_a_log(name, validator):
    data = tomllib.loads(experiment_source.built_in()[name].read_text(encoding="utf-8"))
    assert [error.message for error in validator.iter_errors(data)] == [] or name == "log"
    assert validator.is_valid(data | {"log": {"file": "log.swf"}}) or name != "log"


@pytest.mark.slow
def test_a_file_is_valid_exactly_if_it_is_accepted_but_for_what_is_listed(validator, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS)
    files = bases()
    met = Counter()
    for number in range(FILES):
        data = changed(random.Random(number), files)
        told = refusal(data)
        valid = validator.is_valid(data)
        assert valid == (not told) or (valid and unsaid(told, data)), (number, told, data)
        met[valid, not told] += 1
    assert met[True, True] >= FILES / 5 and met[False, False] >= FILES / 5, met


@pytest.mark.parametrize("reason", UNSAID)
def test_what_a_schema_cannot_say_is_valid_and_refused(reason, validator, monkeypatch):
    monkeypatch.chdir(EXPERIMENTS)
    (name, setting), _ = UNSAID[reason]
    data = bases()[name]
    overrides.apply(data, overrides.parse(setting))
    assert validator.is_valid(data)
    assert reason in unsaid(refusal(data), data)


def test_a_policy_of_another_package_shows_up_by_itself(monkeypatch):
    @dataclass(frozen=True)
    class Other(Gang):
        """All at once."""

        patience_s: Annotated[float, Bounds(1, 9)] = 2.0

    monkeypatch.setitem(registry._known, "another", Other)
    validator = Draft4Validator(experiment_schema())
    data = bases()["three-jobs"]
    for table, valid in (
        ({"patience_s": 3, "rows": 2}, True),
        ({"patience_s": 10}, False),
        ({"x": 1}, False),
    ):
        assert validator.is_valid(data | {"schedulers": [{"policy": "another", **table}]}) == valid
    assert not validator.is_valid(data | {"schedulers": [{"policy": "gang", "patience_s": 3}]})
