"""The simulated schedules of jobs in a results directory: rows in its store, tables of jobs beside it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.analyse import job_table
from harness.measure.session import Watcher
from harness.predict.job_level import Schedule
from harness.report.job_content import JobContent
from harness.simulator.jobs.metrics import measure
from harness.simulator.jobs.model import JobLevelOutcome
from harness.spec.naming import policy_name
from harness.store.database import Store
from harness.store.records import ScheduleRecord
from harness.store.stored import damaged
from workloads.validation import InputError

SAME_S = 1e-3
"""Mean waits that differ by less are the same: tables have ten digits."""


SOURCE = {
    **dict.fromkeys(("warm_up", "count", "place", "schedulers"), int),
    **dict.fromkeys(("trace", "model", "machine", "skipped", "assumed"), dict),
    **{"tau_s": int | float, "file": str},
}
"""Types of what a record says of its jobs; older stores lack some."""


def stem(place: int, scheduler: Mapping[str, Any]) -> str:
    """How the names of a scheduler's files begin."""
    return f"{place:02d}-{scheduler['policy']}"


def read(folder: Path, wanted: str | None, watcher: Watcher) -> JobContent | None:
    """The last simulation of jobs in a store, if nothing was run since; None without one.

    Args:
        folder: the directory that ``simulate -o`` wrote, or the store in it.
        wanted: the name of the experiment; None for any.
        watcher: receives warnings of the store.
    """
    with Store(folder, existing=True, warn=watcher.warn) as store:
        every = store.schedules()
        known = [record for record in every if wanted in (None, record.experiment)]
        if not known and not store.experiments():
            names = ", ".join(dict.fromkeys(record.experiment for record in every))
            raise InputError("--experiment", wanted, "is not in this store", f"it holds {names}")
        runs = [digest for digest, name in store.experiments() if wanted in (None, name, digest)]
        last_run = store.runs(runs[-1])[-1].recorded_at if known and runs else ""
        path = store.path
    if not known or known[-1].recorded_at < last_run:
        return None
    ours = [record for record in known if record.session == known[-1].session]
    for key, kind in SOURCE.items():
        for value in (record.source[key] for record in ours if key in record.source):
            if not isinstance(value, kind):
                raise damaged(path, f"schedules.source has {key} = {value!r:.40}")
    ours.sort(key=lambda record: record.source.get("place", 0))
    rows, doubts = [], []
    total = ours[0].source.get("schedulers", len(ours))
    if len(ours) < total:
        doubts.append(f"only {len(ours)} of {total} schedulers are there: the simulation was interrupted")
    for record in ours:
        outcome, doubt = _schedule_of(record, path.parent)
        doubts += [doubt] if doubt else []
        rows.append(_row(record, outcome))
    return JobContent(ours, rows, doubts)


def _row(record: ScheduleRecord, outcome: JobLevelOutcome | None) -> Schedule:
    columns = ("scheduler", "metrics", "half_width", "replications", "saturated")
    values = {name: getattr(record, name) for name in columns}
    return Schedule(**values, label=policy_name(record.scheduler), outcome=outcome)


def _schedule_of(record: ScheduleRecord, folder: Path) -> tuple[JobLevelOutcome | None, str]:
    """The jobs of a row by the table in ``folder``, and why they are unknown, empty if nobody expects any.

    A table counts only if its jobs have the recorded mean wait: a later simulation may have replaced it.
    """
    source = record.source
    if "trace" not in source or record.saturated or "place" not in source:
        return None, ""
    path = folder / f"{stem(source['place'], record.scheduler)}.csv"
    try:
        outcome = job_table.read_jobs(path, record.processors)
        wait_s = measure(outcome, warm_up=source["warm_up"], tau_s=source["tau_s"]).wait_s
    except FileNotFoundError:
        return None, f"the jobs under {policy_name(record.scheduler)} are unknown: {path} is not there"
    except (OSError, ValueError, OverflowError, InputError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        return None, f"the jobs under {policy_name(record.scheduler)} are unknown: {path}: {why}"
    recorded_s = record.metrics.get("wait_s")
    if recorded_s is None or not math.isclose(wait_s, recorded_s, rel_tol=1e-6, abs_tol=SAME_S):
        return None, f"{path} is of another simulation than the one that is shown"
    return outcome, ""
