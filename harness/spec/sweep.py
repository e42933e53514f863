"""The [sweep] table: lists of values for keys of the experiment file, by the keys of ``--set``.

A list for a key of [[schedulers]] makes several schedulers of that table, for all jobs alike. Lists for
other keys make the points of the sweep: all combinations, the last key varying fastest.
"""

import copy
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from harness.spec import job_source, overrides
from harness.spec.scheduler import Reader, Scheduler, schedulers_of
from harness.spec.table_checks import Table, as_table, field_names
from workloads.bounds import CELLS
from workloads.locks.lock_program import LockProgram
from workloads.machine import KEYS as MACHINE_KEYS
from workloads.validation import InputError, nearest

EVERYWHERE = {"program": field_names(LockProgram), "machine": MACHINE_KEYS}
"""Keys of all programs and of the machine, by table; of jobs without processes, ``job_source.SWEPT``."""


def checked(data: Table) -> Mapping[str, list[Any]]:
    """The [sweep] table of an experiment: a list of different values for each key."""
    sweep = as_table(data.get("sweep", {}), "sweep")
    size = 1
    for key, values in sweep.items():
        _check_axis(key, values, _sweepable(data))
        size *= len(values)
        if size > CELLS:
            raise InputError(
                f'sweep."{key}"',
                values,
                f"makes more than {CELLS} points",
                "give fewer values, or several files",
            )
    return sweep


def points(data: Table, sweep: Mapping[str, list[Any]]) -> Iterator[tuple[dict[str, Any], Any]]:
    """The settings of each point, and the tables of the file with these values in them."""
    axes = {key: values for key, values in sweep.items() if not _of_schedulers(key)}
    rest = {key: value for key, value in data.items() if key != "sweep"}
    for point in itertools.product(*axes.values()):
        settings = dict(zip(axes, point, strict=True))
        yield settings, _with(rest, settings)


def hidden(data: Table, sweep: Mapping[str, list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each swept key to which the file gives a value, too, and the tables with that value in them.

    No point has them: the other keys have their first values.
    """
    rest = {key: value for key, value in data.items() if key != "sweep"}
    for key in sweep:
        if overrides.there(rest, key):
            yield key, _with(rest, {other: values[0] for other, values in sweep.items() if other != key})


def schedulers(data: Table, sweep: Mapping[str, list[Any]], read: Reader) -> tuple[Scheduler, ...]:
    """The schedulers of the file and those that the sweep makes of them, in file order."""
    axes = {key: values for key, values in sweep.items() if _of_schedulers(key)}
    tables = data.get("schedulers", [])
    points: list[tuple[int, dict[str, Any], Any]] = []
    for number, table in enumerate(tables if axes and isinstance(tables, list) else ()):
        ours = {key: values for key, values in axes.items() if overrides.reaches(key, number, table)}
        for point in itertools.product(*ours.values()):
            settings = dict(zip(ours, point, strict=True))
            changed = _with({"schedulers": [*tables[:number], table]}, settings)["schedulers"][number]
            points.append((number, settings, changed))
    for key, values in axes.items():
        if not any(key in settings for _, settings, _ in points):
            _with({"schedulers": tables}, {key: values[0]})
    try:
        every = [table for *_, table in points] if axes else tables
        return schedulers_of(every, read, merge=bool(axes))
    except InputError as error:
        place = re.match(r"schedulers\[(\d+)\]", error.key)
        if not (place and points):
            raise
        number, settings, _ = points[int(place[1])]
        there = f"schedulers[{number}]{error.key[place.end() :]}"
        with blamed(settings):
            raise InputError(there, error.value, error.rule, error.remedy) from None


@contextmanager
def blamed(settings: Table) -> Iterator[None]:
    """A context in which errors name the sweep's key if their value comes from the sweep."""
    try:
        yield
    except InputError as error:
        for key in settings:
            if overrides.make(key, None, key).sets(error.key):
                raise InputError(f'sweep."{key}"', error.value, error.rule, error.remedy) from None
        raise


def _with(data: Table, settings: Table) -> dict[str, Any]:
    """A copy of the tables with other values; what no setting reaches is not copied."""
    table = dict(data)
    for room in {overrides.room(key) for key in settings}:
        table[room] = copy.deepcopy(table.get(room, {}))
    for key, value in settings.items():
        with blamed(settings):
            overrides.apply(table, overrides.make(key, value, key))
    return table


def _of_schedulers(key: str) -> bool:
    return overrides.room(key) == "schedulers"


def _sweepable(data: Table) -> tuple[Sequence[str], Mapping[str, Sequence[str]]]:
    """The lists of tables, and the tables with their keys, that a sweep of the file may vary."""
    if "level" in data:
        return ("schedulers",), job_source.SWEPT
    return ("jobs", "schedulers"), EVERYWHERE | ({"log": job_source.OF_WINDOWS} if "log" in data else {})


def _check_axis(key: str, values: Any, sweepable: tuple[Sequence[str], Mapping[str, Sequence[str]]]) -> None:
    where = f'sweep."{key}"'
    lists, tables = sweepable
    keys = [f"{table}.{name}" for table, names in tables.items() for name in names]
    table, _, name = key.partition(".")
    try:
        room = overrides.room(key)
    except InputError as error:
        raise InputError(where, values, error.rule, error.remedy) from None
    rooms = (*lists, *tables, "processors")
    if room not in rooms or (table in tables and key not in keys) or (table in lists and not name):
        places = [*(f'"{one}.KEY"' for one in tables), *(f'"{one}.0.KEY"' for one in lists)]
        remedy = f'write {", ".join(places)} or "processors", in quotes'
        what = "programs, jobs" if "jobs" in lists else "the source of jobs"
        raise InputError(
            where,
            values,
            f"must be a key of {what}, schedulers or the machine",
            nearest(key, [*keys, *overrides.scheduler_keys()], remedy),
        )
    if not isinstance(values, list) or not values:
        raise InputError(where, values, "must be a list of at least one value", "write [a, b, c]")
    if len(values) > CELLS:
        raise InputError(where, values, f"must be a list of at most {CELLS} values", "give fewer")
    for index, value in enumerate(values):
        if value in values[:index]:
            raise InputError(f"{where}[{index}]", value, "cannot be twice in the sweep", "remove one")
