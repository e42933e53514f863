"""The experiment file as a JSON Schema (draft 4), by which an editor completes and checks it.

Keys and values follow from the declarations that the reader uses. ``json_schema_rules`` says which of them
belong together. A file that Lockstep accepts is valid; docs/how-to/experiment-in-an-editor.md lists what
draft 4 cannot say, so that a valid file is refused.
"""

import inspect
import re
from collections.abc import Iterable, Mapping
from typing import Any

from coordinator import policies
from coordinator.host import mechanisms
from coordinator.view import Submitter
from harness.spec import experiment, job_source, sweep
from harness.spec.job_models import KINDS
from harness.spec.jobs import OF_COMMANDS, OF_GROUPS, JobGroup
from harness.spec.json_schema_rules import (
    any_case,
    enum,
    of_kinds,
    of_owners,
    of_patterns,
    of_policies,
    rules,
)
from harness.spec.log_window import OF_EACH_JOB, SHARE, Window
from harness.spec.overrides import scheduler_keys
from harness.spec.owners import KINDS as OF_OWNERS
from harness.spec.scheduler import SHARED
from harness.spec.submission import LINES, TEXTS, Submission
from workloads.bounds import BOUNDS, CELLS
from workloads.locks.lock_program import LockProgram
from workloads.machine import COLUMNS, GRID_SIDES, RULES
from workloads.machine import KEYS as MACHINE_KEYS
from workloads.options import WITHIN_JOB, Options
from workloads.parameters import UNPRINTABLE, Schema, closed, table_schema, text_schema
from workloads.patterns import PATTERNS
from workloads.program import PHASES, Program
from workloads.waiting_rules import OTHER_NAMES
from workloads.waiting_rules import RULES as WAITING_RULES
from workloads.work import SINGLE, VARIABLE, Command

LINE = text_schema(UNPRINTABLE) | {"pattern": r"\S"}
WORD = text_schema(r"\u0000")
VARIABLES = {
    "type": "object",
    "patternProperties": {f"^{VARIABLE.pattern}$": WORD},
    "additionalProperties": False,
}
LIMIT = 2**31 - 1  # of numbers that other programs read


def experiment_schema() -> Schema:
    """The schema of all experiment files, with the policies of other packages that are installed here."""
    return {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "title": "Experiment file of Lockstep",
        **closed(_keys(), ["schedulers"]),
        "allOf": rules(),
    }


def _keys() -> dict[str, Schema]:
    of_jobs = table_schema(job_source.JobSource)["properties"]
    models = [table_schema(kind)["properties"] for kind in KINDS.values()]
    repeats = _bound("repeats")
    special = {
        "level": enum(job_source.LEVEL),
        "name": LINE,
        "processors": BOUNDS["simulated.processors"].json_schema,
        "repeats": {"anyOf": [repeats, closed(dict.fromkeys(experiment.REPEATS, repeats))]},
        "dedicated": enum(experiment.SPINNING, experiment.TWO_PHASE),
        "timeout_factor": _bound("--timeout-factor"),
        "hosts": _list({"type": "string", "minLength": 1}, least=0),
        "jobs": _list(_job()),
        "schedulers": _list(_scheduler()),
        "owners": _list(_owner(), least=0),
        "machine": closed({key: _of_machine(key) for key in MACHINE_KEYS}),
        "log": closed(_merged(*map(_log, (job_source.Log, Window)))),
        "model": closed({"kind": enum(*KINDS)} | _merged(*models)),
        "sweep": _sweep(),
        "slurm": _slurm(),
    }
    keys = ("level", *experiment.KEYS, *experiment.OF_PROCESSES, *job_source.KEYS)
    same = {key: {"$ref": f"#/properties/{key}"} for key in keys if key != "quick"}
    special["quick"] = {"type": "object", "properties": same}
    return {key: special.get(key) or _bound(key) or of_jobs.get(key, {}) for key in keys}


def _bound(name: str) -> Schema:
    return BOUNDS[name].json_schema if name in BOUNDS else {}


def _list(entry: Schema, *, least: int = 1, **more: Any) -> Schema:
    return {"type": "array", "items": entry, "minItems": least, **more}


def _merged(*tables: Mapping[str, Schema]) -> dict[str, Schema]:
    """Each key of the tables with what it may be in any of them."""
    found: dict[str, list[Schema]] = {}
    for table in tables:
        for key, value in table.items():
            rule = {name: part for name, part in value.items() if name != "default"}
            if rule not in found.setdefault(key, []):
                found[key].append(rule)
    return {key: one[0] if len(one) == 1 else {"anyOf": one} for key, one in found.items()}


def _job() -> Schema:
    kinds = [table_schema(kind)["properties"] for kind in SINGLE.values()]
    of_command, of_group = (table_schema(kind)["properties"] for kind in (Command, JobGroup))
    keys = {
        **{key: of_group[key] for key in OF_GROUPS},
        **table_schema(Submitter)["properties"],
        **_merged(*kinds, {key: of_command[key] for key in ("processes", *OF_COMMANDS)}),
        "kind": enum(*SINGLE),
        "program": closed(_program()),
        "command": _list(WORD),
        "environment": VARIABLES,
        "recording": WORD,
    }
    return closed(keys) | of_kinds(keys)


def _program() -> dict[str, Schema]:
    pair = {"type": "array", "minItems": 2, "items": PHASES.json_schema, "maxItems": 2}
    return {
        **table_schema(LockProgram)["properties"],
        **table_schema(Program)["properties"],
        "pattern": {"anyOf": [enum(*PATTERNS), any_case(*PATTERNS)]},
        "parallelism": _list(pair, least=0),
    }


def _log(kind: Any) -> dict[str, Schema]:
    keys: dict[str, Schema] = table_schema(kind)["properties"]
    of_site = _of_policies()
    program = {key: value for key, value in _program().items() if key not in OF_EACH_JOB}
    program |= {"share": SHARE.json_schema}
    special = {
        "scheduler": closed(of_site, ["policy"]) | of_policies(of_site),
        "programs": _list(closed(program) | {"allOf": of_patterns()}),
    }
    named = keys | {key: value for key, value in special.items() if key in keys}
    return {key.replace("from_hours", "from"): value for key, value in named.items()}


def _of_policies() -> dict[str, Schema]:
    """The keys of all policies, and their names, with what an editor tells about each."""
    known = policies.known()
    texts = [(inspect.getdoc(policy) or "").partition("\n")[0] for policy in known.values()]
    named = enum(*known) | {"x-taplo": {"docs": {"enumValues": texts}}}
    return {"policy": named} | _merged(*(table_schema(policy)["properties"] for policy in known.values()))


def _scheduler() -> Schema:
    shared = table_schema(Options)["properties"]
    special = {
        "waiting": enum(*WAITING_RULES, *OTHER_NAMES),
        "mechanism": enum("auto", *mechanisms.known()),
        "bind": enum(True, False, WITHIN_JOB),
    }
    options = {key: shared[key] | special.get(key, {}) for key in SHARED}
    keys = _of_policies() | options | {"setting": LINE, "environment": VARIABLES}
    return closed(keys) | of_policies(keys)


def _owner() -> Schema:
    numbers = {key: _bound(f"owners.{key}") for key in ("away_s", "load", *OF_OWNERS)}
    pair = _list(_bound("owners.at_s"), least=2, maxItems=2)
    lists = {"processors": _list(_bound("owners.processors"), least=0), "times_s": _list(pair)}
    return closed(numbers | lists | {"trace": {"type": "string"}}) | {"allOf": of_owners()}


def _of_machine(key: str) -> Schema:
    bound = _bound(f"machine.{key}")
    whole = {"type": "integer", "maximum": LIMIT}
    row = [whole | {"minimum": 1 if name == "quantum" else 0} for name in COLUMNS]
    special = {
        "quantum_ms": bound | {"multipleOf": 10},
        "sides": _list(bound, least=GRID_SIDES, maxItems=GRID_SIDES),
        "lost": _list(bound, least=0, uniqueItems=True),
        "dispatch_table": {
            "anyOf": [
                {"type": "string"},
                _list({"type": "array", "items": row, "minItems": len(row), "maxItems": len(row)}),
            ]
        },
    }
    return RULES[key].json_schema if key in RULES else special.get(key, bound)


def _sweep() -> Schema:
    of_log = (*job_source.SWEPT["log"], *job_source.OF_WINDOWS)
    tables = {**job_source.SWEPT, **sweep.EVERYWHERE, "log": of_log}
    values = {"type": "array", "minItems": 1, "maxItems": CELLS, "uniqueItems": True}
    names = [f"{table}.{name}" for table, keys in tables.items() for name in keys]
    lists = r"^(jobs|schedulers)[.\[]."
    below = rf"^({'|'.join(map(re.escape, scheduler_keys()))})[.\[]."
    return closed(dict.fromkeys((*names, *scheduler_keys(), "processors"), values)) | {
        "patternProperties": {lists: values, below: values}
    }


def _slurm() -> Schema:
    keys: Iterable[tuple[str, Schema]] = table_schema(Submission)["properties"].items()
    number = {"anyOf": [LINE, {"type": "integer", "minimum": 0, "maximum": LIMIT}]}
    special: dict[str, Schema] = dict.fromkeys(TEXTS, LINE) | dict.fromkeys(LINES, _list(LINE, least=0))
    special |= {"time": number, "mem": number, "container": {"anyOf": [LINE, enum("")]}}
    special |= {"extra": _list(LINE | {"pattern": "^-"}, least=0)}
    special |= {"ntasks_per_node": _bound("slurm.ntasks-per-node")}
    named = {key: special.get(key, value) for key, value in keys}
    named["ntasks-per-node"] = named.pop("ntasks_per_node")
    return closed(named)
