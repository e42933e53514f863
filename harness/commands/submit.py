"""``lockstep submit EXPERIMENT``: run it in an allocation of Slurm."""

import argparse
import json
import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.host.environment import PYTHON
from coordinator.host.interrupt import Interrupt
from harness import Interrupted
from harness.analyse import stored_runs
from harness.commands import SCHEMA, Answer
from harness.commands.run import forwarded
from harness.commands.shared import EXPERIMENT, MEASURING, add, load
from harness.measure import slurm_wait
from harness.measure.session import Watcher, session_name
from harness.report import text
from harness.spec import experiment_source, overrides, submission
from harness.spec.experiment import Experiment, without_processes
from harness.spec.settings import are_settings
from harness.spec.submission import TEXTS, Submission
from slurm import client, partition
from slurm.command import SlurmError
from slurm.job import JobState, SlurmJob, explain
from slurm.script import TASK, Script, Word
from workloads.bounds import within
from workloads.validation import InputError, LockstepError, refused

WHOLES = {
    "nodes": "use this many nodes (default: 1)",
    "ntasks-per-node": "use this many processors of each node (default: the experiment's, spread evenly)",
}
FLAGS = {
    "exclusive": "allow no other job on the nodes",
    "requeue": "requeue the job at its time limit, and continue then",
}


def arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, *EXPERIMENT, *MEASURING, "--results")
    own = parser.add_argument
    for name, help_text in TEXTS.items():
        own(f"--{name}", metavar="TEXT", help=help_text)
    for name, help_text in WHOLES.items():
        own(f"--{name}", type=int, metavar="N", help=help_text)
    for name, help_text in FLAGS.items():
        own(f"--{name}", action="store_true", help=help_text)
    own(
        "--sbatch",
        metavar="OPTION",
        action="append",
        default=[],
        help="pass a further option to sbatch, e.g. --sbatch=--gres=gpu:1",
    )
    own(
        "--array",
        type=int,
        metavar="N",
        help="divide the sweep among N jobs, and collect their results (default: one job)",
    )
    own("--dry-run", action="store_true", help="print the scripts, but submit nothing")
    own("--wait", action="store_true", help="wait for the end of the jobs and show the results")


@dataclass(frozen=True)
class _Plan:
    """What to submit, and how."""

    wanted: Experiment
    source: str  # the text of its file
    folder: Path  # for the scripts, their logs and a copy of that file
    results: Path
    scripts: Mapping[str, Script]  # by file name, in the order in which they run
    how: Submission


class NotSubmittedError(LockstepError):
    """Slurm did not accept jobs, or did not answer."""


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Submit; with --wait the status is 1 unless all jobs complete."""
    try:
        return _answer(options, watcher)
    except SlurmError as error:
        raise NotSubmittedError(str(error)) from error


def _answer(options: argparse.Namespace, watcher: Watcher) -> Answer:
    plan = _plan(options)
    content: dict[str, Any] = {"schema": SCHEMA, "experiment": plan.wanted.name, "digest": plan.wanted.digest}
    if options.dry_run:
        texts = {name: script.text for name, script in plan.scripts.items()}
        return Answer(content | {"scripts": texts}, list(texts.values()), verbatim=True)
    jobs, refusal = _submit(plan)
    content |= {"jobs": {file: job.id for file, job in jobs.items()}}
    content |= {"cluster": next(iter(jobs.values())).cluster or None}
    content |= {"folder": str(plan.folder), "results": str(plan.results)}
    lines = [f"job {job}: {plan.folder / name}" for name, job in jobs.items()]
    if refusal:
        return Answer(content | {"refusal": refusal}, lines, status=1, notes=(refusal,))
    if not options.wait:
        note = f"results will be in {plan.results} (to cancel the jobs: {client.ends(jobs.values())})"
        return Answer(content, lines, notes=(note,))
    return _awaited(plan, jobs, content, watcher)


def _plan(options: argparse.Namespace) -> _Plan:
    values = {key: getattr(options, key.replace("-", "_")) for key in (*TEXTS, *WHOLES, *FLAGS)}
    settings = [
        overrides.make(f"slurm.{key}", value, f"--{key} {shlex.quote(str(value))}")
        for key, value in values.items()
        if value is not None and value is not False
    ]
    for line in options.sbatch:
        submission.sbatch_option("--sbatch", line)
    written = experiment_source.read(options.experiment).overridden(
        [*map(overrides.parse, options.settings), *settings]
    )
    if "level" in written.data:
        raise written.located(without_processes())
    try:
        how = submission.parse(written.data.get("slurm", {}), options.sbatch)
        processors = written.data.get("processors", 0)
        within("processors", processors)
        how = how.spread(processors)
        if of_settings := are_settings(written.data.get("schedulers")):
            how.check_one_node()
    except InputError as error:
        raise written.located(error) from None
    places = () if of_settings else (f"processors={how.processors}", "hosts=[]")
    experiment = load(options, *places, real=True)
    if options.array is not None and not options.dry_run:
        _check_array(options.array, how)
    results = Path(os.path.realpath(options.results))  # resolve() would fail on loops of links
    folder = results / "submissions" / session_name()
    scripts = _scripts(options, experiment, how, folder, results)
    return _Plan(experiment, written.source, folder, results, scripts, how)


def _check_array(tasks: int, how: Submission) -> None:
    """Refuse more tasks than the cluster allows; where Slurm does not answer, sbatch decides."""
    try:
        most = partition.most_tasks(how.place)
    except SlurmError:
        return
    if most is not None and tasks > most:
        raise InputError(
            "--array",
            tasks,
            f"must be at most {most}, as the cluster's MaxArraySize is {most + 1}",
            f"write --array {most}" if most else "leave --array out",
        )


def _scripts(
    options: argparse.Namespace, experiment: Experiment, how: Submission, folder: Path, results: Path
) -> dict[str, Script]:
    """The script of the run; with --array, a script for the parts and one that collects their results."""
    name = _file_name(experiment.name)
    lockstep = how.started(["lockstep"], [*PYTHON, "-m", "harness.cli"])
    run: list[Word] = [*lockstep, "run", str(folder / f"{name}.toml")]
    # Programs with settings run on the host of the script, as their commands say.
    run += [*(() if experiment.of_settings else ("--allocation",)), *forwarded(options)]
    if log := experiment.log_file:  # the file of the experiment is copied, and the log is not
        run += ["--set", f"log.file={json.dumps(str(log))}"]
    parts = options.array
    if parts is None:
        run += ["--results", str(results)]
        return {f"{name}.sbatch": how.script(name, folder, run, resume=options.resume)}
    if not 1 <= parts <= (points := len(experiment.measured_cells)):
        raise InputError(
            "--array",
            parts,
            f"must be from 1 to the number of points of the sweep, {points}",
            f"write --array {points}" if points > 1 else "leave it out",
        )
    stores = [str(results / "parts" / f"{part}-of-{parts}") for part in range(1, parts + 1)]
    run += ["--part", (TASK, f"/{parts}"), "--results", (f"{results}/parts/", TASK, f"-of-{parts}")]
    collect = [*lockstep, "collect", *stores, "--results", str(results)]
    return {
        f"{name}.sbatch": how.script(name, folder, run, resume=options.resume, tasks=parts),
        "collect.sbatch": how.alone.script(f"{name}-collect", folder, collect),
    }


def _submit(plan: _Plan) -> tuple[dict[str, SlurmJob], str]:
    """Submit the scripts, each after the one before: the jobs by file, and why there are no more."""
    name = _file_name(plan.wanted.name)
    with refused("--results", plan.results, "cannot hold scripts and logs", "choose another directory"):
        plan.folder.mkdir(parents=True)
        (plan.folder / f"{name}.toml").write_text(plan.source, encoding="utf-8")
        for file, script in plan.scripts.items():
            (plan.folder / file).write_text(script.text, encoding="utf-8")
    jobs: dict[str, SlurmJob] = {}
    for file in plan.scripts:
        try:
            with Interrupt():  # so that no job is submitted whose id is not known
                jobs[file] = client.submit(plan.folder / file, after=_last(jobs))
        except (SlurmError, KeyboardInterrupt, SystemExit) as error:
            failure = error if isinstance(error, SlurmError) else error.__context__
            refusal = _refusal(plan, jobs, failure)
            if failure is not error:
                raise Interrupted(refusal) from None
            if not jobs:
                raise
            return jobs, refusal
    return jobs, ""


def _last(jobs: Mapping[str, SlurmJob]) -> SlurmJob | None:
    return [*jobs.values()][-1] if jobs else None


def _refusal(plan: _Plan, jobs: Mapping[str, SlurmJob], failure: BaseException | None) -> str:
    """Why the rest is not submitted, an interrupt if not for a ``failure``, and what can be done."""
    lines = [str(failure or "interrupted")]
    if jobs:
        lines.append(_going_on(jobs))
    rest = [file for file in plan.scripts if file not in jobs]
    if rest and not isinstance(failure, client.LostJobError):
        lines[0] = f"{rest[0]} is not submitted: {lines[0]}"
        lines.append(f"submit it with {shlex.join(client.submission(plan.folder / rest[0], _last(jobs)))}")
    return "; ".join(lines)


def _going_on(jobs: Mapping[str, SlurmJob]) -> str:
    return f"the submitted jobs continue (to cancel them: {client.ends(jobs.values())})"


def _awaited(plan: _Plan, jobs: Mapping[str, SlurmJob], content: dict[str, Any], watcher: Watcher) -> Answer:
    ids = [
        job.task(task + 1) if tasks else job
        for file, job in jobs.items()
        for tasks in [plan.scripts[file].tasks]
        for task in range(tasks or 1)
    ]
    try:
        ended = slurm_wait.wait(ids, plan.folder, watcher)
    except KeyboardInterrupt:
        raise Interrupted(f"no longer waiting; {_going_on(jobs)}") from None
    content["states"] = {
        job.id: {"state": state.value, "status": ending.status if ending else None}
        for job, (state, ending) in ended.items()
    }
    bad = [
        f"job {job} {explain(state, ending)}; its log: {plan.folder / job.id}.log"
        for job, (state, ending) in ended.items()
        if state is not JobState.COMPLETED
    ]
    try:
        result = stored_runs.read(plan.results, plan.wanted.digest, watcher)[-1].results
    except InputError as error:
        return Answer(content | {"result": None}, [f"no results: {error}"], status=1, notes=tuple(bad))
    content |= {"result": result.document()}
    return Answer(content, text.render(result), status=1 if bad else 0, notes=tuple(bad))


def _file_name(name: str) -> str:
    """The name of an experiment, usable as a name of files and jobs."""
    return re.sub(r"[^\w.-]+", "-", name)
