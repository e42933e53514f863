"""Schedulers and programs in a few words, for people."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coordinator import policies
from harness.spec.scheduler import IMPLICIT, plain
from workloads.options import Options, Remedy
from workloads.work import Work, duration_name

QUANTA = ("quantum_ms", "quanta_ms")

REMEDY_NAMES = {
    "warning": "two-minute warning",
    "activations": "activations",
    "conscious": "scheduler-conscious",
    "inheritance": "priority inheritance",
}

LONG_MS = 10_000  # quanta of at least this length are named in seconds


def scheduler_name(table: Mapping[str, Any]) -> str:
    """The policy of a [[schedulers]] table, or the setting, with its waiting rule if that is unusual."""
    name = policy_name(table)
    usual = ("spin", IMPLICIT) if "setting" in table else ("spin",)
    return name if table.get("waiting", "spin") in usual else f"{name} {waiting_name(table)}"


def policy_name(table: Mapping[str, Any]) -> str:
    """The policy of a [[schedulers]] table, with its quanta and options that are no defaults; a setting."""
    if "setting" in table:
        return str(table["setting"])
    policy = str(table["policy"])
    defaults = policies.parameters(policy) if policy in policies.known() else {}
    quanta = [_times_name(table[key]) for key in QUANTA if key in table]
    options = [
        _option_name(key, table[key])
        for key, default in defaults.items()
        if key not in QUANTA and plain(table.get(key, default)) != plain(default)
    ]
    name = " ".join((policy, *quanta)) + "".join(f", {option}" for option in options)
    if table.get("mechanism", "auto") != "auto":
        name += f" {table['mechanism']}"
    if table.get("local", "other") != "other":
        name += f", {table['local']}"
    if quota := table.get("quota_processors"):
        period_ms = table["quota_period_ms"]
        every = "" if period_ms == Options.quota_period_ms else f" every {_times_name(period_ms)}"
        name += f", quota {quota:g}{every}"
    if remedy := table.get("remedy"):
        name += _remedy_name(remedy)
    bind = table.get("bind", True)
    return name if bind is True else f"{name}, {'bound to job' if bind else 'unbound'}"


def _remedy_name(remedy: Mapping[str, Any]) -> str:
    if (kind := remedy["kind"]) == "none":
        return ""
    if kind == "defer":
        name, time_us = f", do not preempt {remedy['deferrals']}", remedy["deferral_us"]
        return name if time_us == Remedy().deferral_us else f"{name} x {duration_name(time_us)}"
    name = f", {REMEDY_NAMES.get(kind, kind)}"
    if kind != "warning" or (time_us := remedy["warning_us"]) == Remedy().warning_us:
        return name
    return f"{name} {duration_name(time_us)}"


def _option_name(key: str, value: Any) -> str:
    if key == "packing":
        return str(value)
    if isinstance(value, bool):
        return key if value else f"no {key}"
    if key.endswith("_ms"):
        return f"{key.removesuffix('_ms').removesuffix('_quantum')} {_times_name(value)}"
    values = value.values() if isinstance(value, Mapping) else value
    text = (
        "/".join(map(str, values)) if isinstance(values, Iterable) and not isinstance(values, str) else value
    )
    return f"{key.removeprefix('priority_weight_')} {text}"


def _times_name(times_ms: float | Sequence[float]) -> str:
    """One time, or several of them, in milliseconds or, if all are long, in seconds."""
    values = times_ms if isinstance(times_ms, list | tuple) else (times_ms,)
    size, unit = (1000, "s") if min(values, default=0) >= LONG_MS else (1, "ms")
    return "/".join(f"{value / size:g}" for value in values) + f" {unit}"


def waiting_name(table: Mapping[str, Any]) -> str:
    if table["waiting"] == "fixed":
        return f"fixed {table['spin_switches']:g}"
    if table["waiting"] == "global-adaptive" and table.get("imbalance_estimate") == "arrival-spread":
        return "global-adaptive, arrival-spread"
    return str(table["waiting"])


def workload_name(jobs: Sequence[Work]) -> str:
    """The programs of all jobs: in full if alike, else in a word each, as in "2 x NEWS + BARRIER"."""
    if all(work == jobs[0] for work in jobs):
        return jobs[0].label
    counts = Counter(work.short_name for work in jobs)
    return " + ".join(f"{count} x {name}" if count > 1 else name for name, count in counts.items())


def setting_names(keys: Iterable[str]) -> dict[str, str]:
    """A heading for each swept key: its last part, or the whole key if another one ends alike."""
    last = {key: key.replace("[", ".").replace("]", "").rpartition(".")[2] for key in keys}
    counts = Counter(last.values())
    return {key: name if counts[name] == 1 else key for key, name in last.items()}
