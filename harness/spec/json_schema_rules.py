"""What keys of an experiment file have to do with each other, in JSON Schema (draft 4).

The places of these rules in the reader are its checks; tests compare both on generated files.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from coordinator import policies
from coordinator.host.launchers import LAUNCHERS
from harness.spec import experiment, job_source
from harness.spec.jobs import LAUNCHER, OF_COMMANDS
from harness.spec.jobs import SHARED as OF_JOBS
from harness.spec.log_window import Window
from harness.spec.overrides import scheduler_keys
from harness.spec.owners import KINDS as OF_OWNERS
from harness.spec.scheduler import IMPLICIT, SHARED, STOPPING
from harness.spec.settings import AS_IT_IS, OF_TWO_PHASE, TWO_PHASE
from workloads.bounds import BOUNDS
from workloads.locks.lock_program import OF_MESSAGES, LockProgram
from workloads.machine import FLAT, MESH, TOPOLOGIES, TORUS
from workloads.machine import KEYS as MACHINE_KEYS
from workloads.native.settings import FITS, LIBRARY_SETTINGS
from workloads.options import WITHIN_JOB
from workloads.parameters import Schema, table_schema
from workloads.patterns import LOCK, TASKS
from workloads.program import Program
from workloads.waiting_rules import DEFAULT_ESTIMATE, ESTIMATES, OTHER_NAMES, RULES
from workloads.work import SINGLE

POSITIVE = {"type": "number", "minimum": 0, "exclusiveMinimum": True}
NOTHING: Schema = {"not": {}}
UNBOUND = (False, WITHIN_JOB)


def _names(kind: Any) -> list[str]:
    return list(table_schema(kind)["properties"])


def enum(*values: Any) -> Schema:
    return {"enum": list(values)}


def any_case(*names: str) -> Schema:
    """The schema of these names, in capital and small letters."""
    spelled = ("".join(f"[{one.upper()}{one.lower()}]" for one in name) for name in names)
    return {"type": "string", "pattern": f"^({'|'.join(spelled)})$"}


def having(values: Mapping[str, Schema]) -> Schema:
    """Tables that have all these keys, each with such a value."""
    return {"required": list(values), "properties": dict(values)}


def never(**values: Schema) -> Schema:
    return {"not": having(values)}


def without(keys: Iterable[str], *allowed: str) -> Schema:
    """Tables with none of these keys but those ``allowed``."""
    others = "|".join(key for key in keys if key not in allowed)
    return {"patternProperties": {f"^({others})$": NOTHING}} if others else {}


def exactly_one(*keys: str) -> Schema:
    """Tables that have exactly one of these keys."""
    return {"oneOf": [{"required": [key]} for key in keys]}


def needs(key: str, other: str, value: Schema, *, usual: bool = False) -> Schema:
    """Tables with ``key`` have such a value of the ``other`` key, or none if that is ``usual``."""
    there = {"properties": {other: value}} | ({} if usual else {"required": [other]})
    return {"anyOf": [without([key]), there]}


def each(key: str, entry: Schema) -> Schema:
    """Files whose tables of a list ``key`` all are such."""
    return {"properties": {key: {"items": entry}}}


def sweeps_none(keys: str) -> Schema:
    """Sweeps of no key that begins so."""
    return {"patternProperties": {f"^{keys}": NOTHING}}


def unless_swept(keys: str, rule: Schema) -> Schema:
    """The rule, but for files in which [sweep] gives other values to some of these ``keys``, a pattern."""
    swept = {"not": sweeps_none(keys)}
    return {"anyOf": [{"required": ["sweep"], "properties": {"sweep": swept}}, rule]}


OF_WINDOWS = [name.replace("from_hours", "from") for name in _names(Window)]
OF_PATTERNS = [name for name in _names(LockProgram) if name not in _names(Program)]
OF_PATTERNS += ["pattern", "dedicated_s", "phases", "parallelism", *OF_MESSAGES]
FREE = "|".join((*(name for name in _names(Program) if name not in OF_PATTERNS), *OF_JOBS))
OF_POLICIES = "|".join(name for name in scheduler_keys() if name not in SHARED)
TABLES = r"(program|jobs|machine|log|model|migration|processors)\b"

LOG, SOURCES, MACHINE = "log", "(log|model|processors)", "machine"
PROGRAMS = rf"(program|jobs)\b(?!.*\.({FREE})$)"
SCHEDULERS = rf"(?!{TABLES})(?!(.*\.)?({OF_POLICIES})$)"
"""Keys of [sweep] that have to do with the rules of these tables; those of schedulers need not name one."""


def rules() -> list[Schema]:
    """The rules of a whole file."""
    return [
        {"anyOf": [_by_job(), _of_programs(), _of_settings()]},
        unless_swept(MACHINE, {"properties": {"machine": {"allOf": _machine()}}}),
        unless_swept(SCHEDULERS, _owners()),
    ]


def _by_job() -> Schema:
    """Files whose jobs have no processes."""
    others = [key for key in experiment.OF_PROCESSES if key not in job_source.KEYS]
    machine = "|".join(job_source.MACHINE_KEYS)
    complete = {"required": ["policy"], **without(SHARED)}
    model = table_schema(job_source.JobSource)["properties"]["model"]
    sized = needs("model", "processors", {"minimum": 1})
    sources = {"allOf": [exactly_one("log", "model"), {"properties": {"log": {"required": ["file"]}}}, sized]}
    return {
        "required": ["level"],
        "properties": {
            "log": without(OF_WINDOWS, *_names(job_source.Log)),
            "machine": without(MACHINE_KEYS, *job_source.MACHINE_KEYS),
        },
        "allOf": [
            {"properties": {"sweep": sweeps_none(rf"(program|jobs|machine\.(?!{machine}))\b")}},
            without(others),
            unless_swept(SOURCES, sources | {"properties": {"model": model}}),
            unless_swept(SCHEDULERS, each("schedulers", complete)),
        ],
    }


def of_policies(keys: Mapping[str, Schema]) -> Schema:
    """Tables with these ``keys`` that have only those of their policy, if they name one."""
    tables: list[Schema] = [without(["policy"])]
    for name, policy in policies.known().items():
        own = table_schema(policy)["properties"]
        several = {key: rule for key, rule in own.items() if "anyOf" in keys[key]}
        table = {"required": ["policy"], "properties": {"policy": enum(name), **several}}
        tables.append(table | without(keys, "policy", *SHARED, *own))
    return {"anyOf": tables}


def of_kinds(keys: Mapping[str, Schema]) -> Schema:
    """Jobs with these ``keys`` that have only those of their kind, if they have one."""
    program = {"required": ["program"], **without(keys, "program", *OF_JOBS)}
    command = {"required": ["command"], **without(keys, "command", "processes", *OF_COMMANDS, *OF_JOBS)}
    single = [
        having({"kind": enum(name)}) | without(keys, "kind", *_names(kind), *OF_JOBS)
        for name, kind in SINGLE.items()
    ]
    return {"anyOf": [without(["program", "command", "kind"]), program, command, *single]}


def _of_programs() -> Schema:
    """Files whose schedulers have policies and whose jobs have processes."""
    others = [key for key in job_source.KEYS if key not in experiment.OF_PROCESSES]
    jobs = [exactly_one("program", "command", "kind"), _command(), *map(_single, SINGLE)]
    jobs += [{"properties": {"program": {"allOf": [exactly_one("dedicated_s", "phases"), *of_patterns()]}}}]
    complete = {"allOf": [{"required": ["policy"]}, *_options()]}
    by_policy = {"items": without(["setting", "environment"])}
    return {
        "properties": {"processors": BOUNDS["processors"].json_schema, "schedulers": by_policy},
        "allOf": [
            without(["level", "timeout_factor", *others]),
            {"properties": {"sweep": sweeps_none(r"(model|migration)\b")}},
            unless_swept(SCHEDULERS, each("schedulers", complete)),
            unless_swept(PROGRAMS, each("jobs", {"allOf": jobs})),
            *_log(),
        ],
    }


def _log() -> list[Schema]:
    """Files that have either jobs, or a part of a log whose jobs have processes."""
    window = {"properties": {"log": {"required": ["file"], **exactly_one("hours", "jobs")}}}
    return [
        unless_swept(LOG, {"anyOf": [{"required": ["jobs"]}, {"required": ["log"]}]}),
        {"anyOf": [without(["log"]), without(["jobs", "dedicated"])]},
        {"properties": {"log": without(_names(job_source.Log), *OF_WINDOWS)}},
        unless_swept(LOG, window),
    ]


def _command() -> Schema:
    """Jobs whose command, if they have one, begins with a launcher and has two words more at least."""
    programs = "|".join(pattern for one in LAUNCHERS.values() for pattern in one.programs)
    launcher = {"anyOf": [enum(LAUNCHER), {"pattern": rf"(^|/)({programs})\b[^/]*$"}]}
    words = [{"items": {"minLength": 1}, "minItems": 3}, {"items": [launcher]}]
    return {"properties": {"command": {"allOf": words}}}


def _single(kind: str) -> Schema:
    """Jobs that have all keys of a kind if they are of this kind."""
    needed = table_schema(SINGLE[kind])["required"]
    return {"anyOf": [never(kind=enum(kind)), {"required": needed}]}


def of_patterns() -> list[Schema]:
    """What keys of programs have to do with their patterns."""
    locks = [key for key in _names(LockProgram) if key not in _names(Program)]
    of_lock = table_schema(LockProgram)["properties"]
    defaults = {key: enum(of_lock[key]["default"]) for key in OF_MESSAGES}
    tasks = having({"pattern": any_case(TASKS)})
    adapting = {"anyOf": [tasks, having({"malleable": enum(True)})]}
    without_reads = {"properties": {"pattern": any_case(Program.pattern)}}
    return [
        {
            "anyOf": [
                {"required": ["pattern"], "properties": {"pattern": any_case(LOCK), **defaults}},
                {"properties": {"pattern": {"not": any_case(LOCK)}}, **without(locks)},
            ]
        },
        {"anyOf": [tasks, {"properties": {"parallelism": {"maxItems": 0}}}]},
        never(pattern=any_case(TASKS), malleable=enum(True)),
        never(malleable=enum(True), read=enum("rma")),
        {"not": {"allOf": [adapting, having({"checkpoint_phases": POSITIVE})]}},
        {"not": {"allOf": [without_reads, having({"opening_barrier": enum(False)})]}},
    ]


def _options() -> list[Schema]:
    """What options of schedulers have to do with each other and with their policies."""
    kinds = {name: policies.create(name, {}) for name in policies.known()}
    stops = enum(*(name for name, one in kinds.items() if one.stops_processes))
    stops_none = enum(*(name for name, one in kinds.items() if not one.stops_processes))
    moves = enum(*(name for name, one in kinds.items() if one.moves))
    messages = enum(*(name for name, one in kinds.items() if one.coscheduling))
    unusual = enum(*(name for name in ESTIMATES if name != DEFAULT_ESTIMATE))
    other_rules = enum(*(name for name in (*RULES, *OTHER_NAMES) if name != IMPLICIT))
    named = {"anyOf": [{"required": ["waiting"]}, having({"policy": enum("implicit")})]}
    ordinary = [{"local": enum("rr")}, {"mechanism": enum("realtime", "freezer")}]
    ordinary += [{"remedy": _remedy("activations", "inheritance")}, {"policy": messages}]
    return [
        {"anyOf": [named, never(imbalance_estimate=unusual)]},
        never(imbalance_estimate=unusual, waiting=other_rules),
        never(policy=stops, remedy=_remedy("inheritance")),
        never(policy=stops_none, remedy=_remedy(*STOPPING)),
        never(policy=moves, bind=enum(WITHIN_JOB)),
        never(policy=messages, local=enum("other")),
        never(policy=messages, bind=enum(*UNBOUND)),
        never(mechanism=enum("realtime"), local=enum("rr")),
        never(mechanism=enum("realtime"), remedy=_remedy(*STOPPING)),
        never(local=enum("rr"), remedy=_remedy("inheritance")),
        never(bind=enum(*UNBOUND), remedy=_remedy("activations")),
        *(never(quota_processors=POSITIVE, **one) for one in ordinary),
    ]


def _remedy(*kinds: str) -> Schema:
    return having({"kind": enum(*kinds)})


def _of_settings() -> Schema:
    """Files whose schedulers are settings, and whose jobs are commands as their users start them."""
    others = [key for key in job_source.KEYS if key not in experiment.OF_PROCESSES]
    fixed = [one.name for one in LIBRARY_SETTINGS if FITS not in one.variables.values()]
    filled = {"minProperties": 1}
    first = {"properties": {"command": {"items": [{"minLength": 1}]}}}
    others_of_jobs = ["program", "kind", "processes", *OF_COMMANDS, *OF_JOBS]
    job = {"required": ["command"], **first, **without(others_of_jobs, "count")}
    waiting = enum(*(rule for rule in RULES if rule != "oracle"))
    setting = [
        {"required": ["setting"]},
        {"anyOf": [having({"setting": enum(AS_IT_IS, TWO_PHASE, *fixed)}), having({"environment": filled})]},
        never(setting=enum(AS_IT_IS), environment=filled),
        {"anyOf": [having({"setting": enum(TWO_PHASE)}), without(OF_TWO_PHASE)]},
        without(["policy", *scheduler_keys()], *OF_TWO_PHASE),
        {"properties": {"waiting": waiting}},
    ]
    return {
        "allOf": [
            without(["level", *experiment.NOT_OF_SETTINGS, *others]),
            {"properties": {"sweep": sweeps_none(rf"({'|'.join(experiment.NOT_OF_SETTINGS)})\b")}},
            unless_swept(SCHEDULERS, each("schedulers", {"allOf": setting})),
            unless_swept(PROGRAMS, each("jobs", job)),
            *_log(),
        ]
    }


def _machine() -> list[Schema]:
    grids = enum(MESH, TORUS)
    return [
        needs("sides", "topology", grids),
        {"anyOf": [{"required": ["sides"]}, {"not": having({"topology": grids})}]},
        {
            "anyOf": [
                having({"topology": enum(*(name for name in TOPOLOGIES if name != FLAT))}),
                {"properties": {"hop_latency_us": {"maximum": 0}}},
            ]
        },
        needs("quantum_ms", "local", enum("round-robin")),
        needs("dispatch_table", "local", enum("svr4"), usual=True),
    ]


def of_owners() -> list[Schema]:
    return [
        exactly_one(*OF_OWNERS),
        {"oneOf": [{"required": ["present_s", "away_s"]}, without(["present_s", "away_s"])]},
        {"not": {"required": ["trace", "load"]}},
    ]


def _owners() -> Schema:
    """Files whose policies take notice of owners, if they have some."""
    heeding = [name for name, policy in policies.known().items() if policy.uses_owner_load]
    heed = each("schedulers", {"properties": {"policy": enum(*heeding)}})
    return {"anyOf": [without(["owners"]), {"properties": {"owners": {"maxItems": 0}}}, heed]}
