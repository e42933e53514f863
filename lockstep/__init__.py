"""Lockstep from Python: run, simulate and compare time-shared MPI jobs, and get the results as frames.

    import lockstep

    found = lockstep.run("three-jobs", settings=["repeats=3"])
    found.rows()[["scheduler", "kind", "slowdown", "low", "high"]]
    lockstep.plot.slowdowns(found)
    lockstep.compare("lockstep-results", between=("none", "gang 100 ms"))

An experiment is the path of a file, the name of a built-in experiment, or a dictionary with the keys of
such a file (docs/formats.md):

    lockstep.simulate({
        "processors": 2,
        "jobs": [{"count": 3, "program": {"pattern": "NEWS", "processes": 2, "dedicated_s": 1.0}}],
        "schedulers": [{"policy": "none"}, {"policy": "gang", "quantum_ms": 20}],
    })

This module is the public interface. ``harness``, ``coordinator``, ``workloads`` and ``slurm`` are
internal and change without notice, but for what a policy of another package needs:
``coordinator.policies`` and ``coordinator.view``. Such a package names its modules in entry points of
the group ``lockstep.policies``.

Bad input raises :class:`InputError`; every other error of Lockstep is a :class:`LockstepError`, too.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lockstep.results import Results
from workloads.validation import InputError, LockstepError

if TYPE_CHECKING:
    import pandas

    from lockstep import plot

__all__ = ["InputError", "LockstepError", "Results", "advise", "compare", "load", "plot", "run", "simulate"]

Source = str | Path | Mapping[str, Any]
RESULTS = "lockstep-results"


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
    anyway: bool = False,
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
        anyway: whether to measure even while another Lockstep uses these processors, instead of waiting.

    Raises:
        InputError: for bad input, before anything starts.
        LockstepError: if something else fails; runs that fail are ``failures`` of the results.
    """
    flags = {"--quick": quick, "--no-simulate": not simulate, "--resume": resume, "--timeline": timeline}
    flags["--anyway"] = anyway
    return _results("run", experiment, results, settings, seed, flags)


def simulate(
    experiment: Source,
    *,
    results: str | Path = RESULTS,
    settings: Iterable[str] = (),
    quick: bool = False,
    seed: int | None = None,
) -> Results:
    """Simulate every scheduler of an experiment, without running it.

    The last calibration in ``results`` gives the constants that the experiment leaves open.

    Raises:
        InputError: for bad input.
    """
    return _results("simulate", experiment, results, settings, seed, {"--quick": quick})


def advise(
    *,
    pattern: str = "BARRIER",
    granularity_us: float = 1000.0,
    imbalance: float = 0.25,
    processes: int = 2,
    jobs: int = 3,
    recording: str | Path | None = None,
    results: str | Path = RESULTS,
    anyway: bool = False,
) -> dict[str, Any]:
    """What ``lockstep advise --json`` prints: simulated candidates for some jobs, the best first.

    The jobs run the program of a ``recording``, if there is one, else the described one.

    Raises:
        InputError: for a program that does not fit the machine, or, unless ``anyway``, a last calibration
            in ``results`` that was made under load.
        LockstepError: if the calibration fails, which is made if ``results`` has none.
    """
    given = {
        **{"pattern": pattern, "granularity-us": granularity_us, "imbalance": imbalance},
        **{"processes": processes, "jobs": jobs, "results": results},
    }
    given |= {"recording": recording} if recording else {}
    words = [f"--{name}={value}" for name, value in given.items()] + ["--anyway"] * anyway
    answer = _answer("advise", words)
    return dict(answer.document)


def load(results: str | Path = RESULTS, experiment: str | None = None) -> Results:
    """The results of the newest experiment in a directory, or of the one with this name or digest.

    Raises:
        InputError: if there is no such directory or experiment.
        LockstepError: if the store is damaged.
    """
    from harness.analyse import results_document, summary  # noqa: PLC0415
    from harness.commands import stored  # noqa: PLC0415

    found = stored.read(Path(results), experiment, _Silent())[-1]
    return Results(results_document.results(found.experiment, found.records, summary.TAU_S))


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

    from harness.analyse.comparison import flat  # noqa: PLC0415

    if (after is None) == (between is None):
        rule = "either a second directory or two schedulers must be given"
        raise InputError("after", after, rule, 'write between=("none", "gang 100 ms")')
    words = ["--between", *between] if between else []
    words += [] if experiment is None else [f"--experiment={experiment}"]
    document = _answer("compare", [*words, "--", str(before), *([str(after)] if after else [])]).document
    rows = [row for one in document["experiments"] for row in one["rows"]]
    return pandas.DataFrame(flat(rows))


def _results(
    command: str,
    experiment: Source,
    results: str | Path,
    settings: Iterable[str],
    seed: int | None,
    flags: Mapping[str, bool],
) -> Results:
    words = [f"--set={setting}" for setting in ([settings] if isinstance(settings, str) else settings)]
    words += [flag for flag, given in flags.items() if given] + [f"--results={results}"]
    words += [] if seed is None else [f"--seed={seed}"]
    source = dict(experiment) if isinstance(experiment, Mapping) else str(experiment)
    answer = _answer(command, [*words, "--", "EXPERIMENT"], experiment=source)
    if answer.results is None:
        raise InputError(
            "EXPERIMENT", source, "is one of jobs (level = 'jobs')", "use lockstep simulate -o DIR"
        )
    return Results(answer.results)


def _answer(command: str, words: Iterable[str], **more: Any) -> Any:
    """What a command answers; ``more`` replaces options."""
    module = importlib.import_module(f"harness.commands.{command}")
    parser = argparse.ArgumentParser(prog=f"lockstep {command}", exit_on_error=False)
    module.arguments(parser)
    try:
        options = parser.parse_args(list(words))
    except argparse.ArgumentError as error:
        name = (error.argument_name or "").removeprefix("--")
        raise InputError(name, "", error.message, "see help(lockstep)") from None
    vars(options).update(more)
    return module.execute(options, _Silent())


class _Silent:
    """A watcher of whom nobody reads."""

    def progress(self, progress: Any) -> None:
        """Nothing."""

    def standing(self, standing: Any) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

    def warn(self, text: str) -> None:
        """Pass a warning on."""
        import warnings  # noqa: PLC0415

        warnings.warn(text, stacklevel=2)


def __getattr__(name: str) -> Any:
    if name == "plot":  # matplotlib is slow to load
        return importlib.import_module("lockstep.plot")
    raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
