"""Lockstep from Python: run, simulate and compare time-shared MPI jobs, and get the results as frames.

    import lockstep

    found = lockstep.run("three-jobs", settings=["repeats=3"])
    found.rows()[["scheduler", "kind", "slowdown", "low", "high"]]
    lockstep.plot.slowdowns(found)
    lockstep.compare("lockstep-results", between=("none", "gang 100 ms"))

An experiment is the path of a file, the name of a built-in experiment, or a dictionary with the keys of such
a file (docs/reference/experiment-file.md):

    lockstep.simulate({
        "processors": 2,
        "jobs": [{"count": 3, "program": {"pattern": "NEWS", "processes": 2, "dedicated_s": 1.0}}],
        "schedulers": [{"policy": "none"}, {"policy": "gang", "quantum_ms": 20}],
    })

This module is the public interface. ``harness``, ``coordinator``, ``workloads`` and ``slurm`` are internal
and change without notice, but for what a policy of another package needs: ``coordinator.policies`` and
``coordinator.view``. Such a package names its modules in entry points of the group ``lockstep.policies``.

Bad input raises :class:`InputError`; every other error of Lockstep is a :class:`LockstepError`, too.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from lockstep.results import Results
from workloads.validation import InputError, LockstepError, former

if TYPE_CHECKING:
    import pandas

    from harness.measure.session import Watcher
    from harness.spec.experiment import Experiment
    from lockstep import plot

__all__ = [
    "InputError",
    "LockstepError",
    "Results",
    "advise",
    "colocate",
    "compare",
    "load",
    "plot",
    "run",
    "simulate",
]

Source = str | Path | Mapping[str, Any]
RESULTS = "lockstep-results"
P = ParamSpec("P")
T = TypeVar("T")


def _checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which answers a former name of an argument by the present one."""
    known = [*inspect.signature(function).parameters]

    @wraps(function)
    def checked(*values: P.args, **named: P.kwargs) -> T:
        for name, value in named.items():
            if hint := former(name, known):
                raise InputError(name, value, f"is not an argument of {function.__name__}", hint)
        return function(*values, **named)

    return checked


@_checked
def run(
    experiment: Source,
    *,
    results: str | Path = RESULTS,
    settings: Iterable[str] = (),
    quick: bool = False,
    seed: int | None = None,
    simulate: bool = True,
    resume: bool = False,
    timeline: bool = False,
    no_wait: bool = False,
    through: str | None = None,
    watcher: Watcher | None = None,
) -> Results:
    """Measure every scheduler of an experiment against dedicated runs, and simulate the same.

    Args:
        experiment: path, name or dictionary.
        results: the directory for the records.
        settings: ``key=value`` overrides, as after ``--set``.
        quick: fewer repeats of shorter programs.
        seed: of compute times and of the order of runs.
        simulate: whether to simulate the measured runs.
        resume: whether to leave out runs that are recorded already.
        timeline: whether to record a timeline of every rank.
        no_wait: whether to measure even while another Lockstep uses these processors, instead of waiting.
        through: "slurm" to submit each job of the job log to Slurm by itself, too, as one more scheduler.
        watcher: an object with the methods ``progress``, ``row_status``, ``note`` and ``warn``, which receive
            the progress (``harness.measure.session.Watcher``); without it only warnings are passed on.

    Raises:
        InputError: for bad input, before anything starts.
        LockstepError: if something else fails; runs that fail are ``failures`` of the results.
    """
    from harness import application  # noqa: PLC0415 - slow to load

    with application.limits_kept():
        wanted = _load(experiment, settings, quick, seed, here=True).through(through)
        options = application.RunOptions(simulate=simulate, resume=resume, timeline=timeline, no_wait=no_wait)
        ran = application.run(wanted, Path(results), _watching(watcher), options)
    return Results(ran.results)


@_checked
def colocate(
    commands: Sequence[str | Sequence[str]],
    *,
    policies: Sequence[str] = (),
    rounds: int = 8,
    precision: float = 0.05,
    record: bool = False,
    results: str | Path = RESULTS,
    no_wait: bool = False,
    watcher: Watcher | None = None,
) -> Results:
    """Measure programs alone and together on the same processors, as ``lockstep colocate`` does.

    Args:
        commands: at least one, each as a line for a shell, or as its words.
        policies: ways to share the processors besides Linux's, with their keys: ``"gang quantum_ms=20"``.
        rounds: how often everything is measured at most.
        precision: width of a 95 % interval, as a share of its median, from which a row needs no more rounds.
        record: whether to record each program alone, and to simulate all ways.
        results: the directory for the records.
        no_wait: whether to measure even while another Lockstep uses these processors.
        watcher: as for :func:`run`.

    Raises:
        InputError: for bad input, before anything starts.
        LockstepError: if something else fails; runs that fail are ``failures`` of the results.
    """
    from harness.spec import colocate as programs  # noqa: PLC0415 - slow to load

    words = [programs.command_words([line] if isinstance(line, str) else line) for line in commands]
    table = programs.table(words, policies, rounds=rounds, precision=precision, record=record)
    return run(table, results=results, simulate=record, no_wait=no_wait, watcher=watcher)


@_checked
def simulate(
    experiment: Source,
    *,
    results: str | Path = RESULTS,
    settings: Iterable[str] = (),
    quick: bool = False,
    seed: int | None = None,
    output: str | Path | None = None,
    resume: bool = False,
    watcher: Watcher | None = None,
) -> Results:
    """Simulate every scheduler of an experiment, without running it.

    The last calibration in ``results`` gives the constants that the experiment leaves open. ``output`` is a
    directory for the records of the simulations, of which ``resume`` leaves out those that are there;
    ``watcher`` is as for :func:`run`. Of jobs without processes the slowdown is their mean bounded slowdown.

    Raises:
        InputError: for bad input.
    """
    from harness import application  # noqa: PLC0415

    wanted = _load(experiment, settings, quick, seed)
    folder = None if output is None else Path(output)
    made = application.simulate(wanted, Path(results), _watching(watcher), output=folder, resume=resume)
    return Results(made.results)


@_checked
def advise(
    *,
    pattern: str = "BARRIER",
    granularity_us: float = 1000.0,
    imbalance: float = 0.25,
    processes: int = 2,
    jobs: int = 3,
    recording: str | Path | None = None,
    results: str | Path = RESULTS,
    no_wait: bool = False,
    watcher: Watcher | None = None,
) -> dict[str, Any]:
    """What ``lockstep advise --json`` prints: simulated candidates for some jobs, the best first.

    The jobs run the program of a ``recording``, if there is one, else the described one.

    Raises:
        InputError: for a program that does not fit the machine.
        LockstepError: if the calibration fails, which is made if ``results`` has no good one.
    """
    from harness import application  # noqa: PLC0415
    from harness.analyse.advise import LEAST_S  # noqa: PLC0415
    from workloads.program import Program  # noqa: PLC0415

    described = Program(
        pattern=pattern,
        processes=processes,
        granularity_us=granularity_us,
        imbalance=imbalance,
        dedicated_s=LEAST_S,
    )
    asked = Path(recording) if recording else described
    return application.advise(asked, jobs, Path(results), _watching(watcher), no_wait=no_wait).document()


@_checked
def load(results: str | Path = RESULTS, experiment: str | None = None) -> Results:
    """The results of the newest experiment in a directory, or of the one with this name or digest.

    Raises:
        InputError: if there is no such directory or experiment.
        LockstepError: if the store is damaged.
    """
    from harness.analyse import stored_runs  # noqa: PLC0415

    return Results(stored_runs.read(Path(results), experiment, _watching(None))[-1].results)


@_checked
def compare(
    before: str | Path,
    after: str | Path | None = None,
    *,
    between: tuple[str, str] | None = None,
    experiment: str | None = None,
) -> pandas.DataFrame:
    """The rows of two results directories, or of two schedulers of one, with verdicts.

    Args:
        before: a results directory.
        after: another one.
        between: names of two schedulers of ``before``, instead.
        experiment: only experiments with this name or digest.

    Returns:
        A row for each comparison: ``workload``, the settings of the sweep, ``scheduler_before`` and
        ``scheduler_after``, median workload slowdowns ``before`` and ``after`` with their numbers of
        repeats ``n_before`` and ``n_after``, ``ratio`` of the slowdowns (after over before) with its
        95 % interval from ``low`` to ``high``, ``verdict`` and ``reason`` (docs/report.md).

    Raises:
        InputError: if there is no such directory, experiment or scheduler, or nothing to compare.
    """
    import pandas  # noqa: PLC0415 - slow to load

    from harness.analyse import before_after  # noqa: PLC0415
    from harness.analyse.comparison import flat  # noqa: PLC0415

    if (after is None) == (between is None):
        raise InputError(
            "after",
            after,
            "either a second directory or two schedulers must be given",
            'write between=("none", "gang 100 ms")',
        )
    paths = Path(before), None if after is None else Path(after)
    _, rows = before_after.compare(*paths, between, experiment, _watching(None))
    return pandas.DataFrame(flat(row.plain() for row in rows))


def _load(
    experiment: Source, settings: Iterable[str], quick: bool, seed: int | None, *, here: bool = False
) -> Experiment:
    from harness.spec import experiment as experiments  # noqa: PLC0415

    source = dict(experiment) if isinstance(experiment, Mapping) else str(experiment)
    texts = [settings] if isinstance(settings, str) else settings
    return experiments.load(source, settings=texts, quick=quick, seed=seed, here=here)


def _watching(watcher: Watcher | None) -> Watcher:
    from harness.measure.session import Silent  # noqa: PLC0415

    methods = [name for name in vars(Silent) if not name.startswith("_")]
    lacking = [name for name in methods if not hasattr(watcher, name)]
    if watcher is not None and lacking:
        hints = (f"rename {name}: {hint}" for name in dir(watcher) if (hint := former(name, lacking)))
        raise InputError(
            "watcher",
            type(watcher).__name__,
            f"must have the methods {', '.join(methods)}, and has no {lacking[0]}",
            next(hints, "add it"),
        )
    return watcher or Silent()


def __getattr__(name: str) -> Any:
    if name == "plot":  # matplotlib is slow to load
        return importlib.import_module("lockstep.plot")
    hint = former(name, __all__)
    raise AttributeError(f"module 'lockstep' has no attribute {name!r}" + (f": {hint}" if hint else ""))
