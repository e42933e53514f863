"""``lockstep run EXPERIMENT``: measure every scheduler against dedicated runs."""

import argparse
import shlex
from pathlib import Path

from harness import INTERRUPTED, application
from harness.analyse import stored_runs
from harness.application import Ran, RunOptions
from harness.commands import Answer, report
from harness.commands.shared import (
    EXPERIMENT,
    HOSTS,
    MEASURING,
    VERDICTS,
    add,
    add_one_of,
    judged,
    load,
    show,
    thresholds_of,
)
from harness.measure.session import Watcher
from harness.report import text
from harness.report.cells import Line
from harness.spec import hosts
from harness.spec.scheduler import THROUGH_SLURM


def arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, *EXPERIMENT, *MEASURING)
    add_one_of(parser, *HOSTS, "--allocation")
    parser.add_argument(
        "--part", metavar="K/N", help="run only part K of N of the sweep (see lockstep collect)"
    )
    parser.add_argument(
        "--through",
        choices=(THROUGH_SLURM.name,),
        help="also submit each job of the job log to this cluster's scheduler, by itself",
    )
    add(parser, "--slowdown-bound", "--results", "--no-wait", "--open", *VERDICTS)


def forwarded(options: argparse.Namespace) -> list[str]:
    """The words that repeat these arguments in another invocation, except EXPERIMENT and --resume."""
    words = [word for policy in options.policies for word in ("--policy", policy)]
    words += [word for setting in options.settings for word in ("--set", setting)]
    words += ["--quick"] if options.quick else []
    words += [] if options.seed is None else ["--seed", str(options.seed)]
    words += [] if options.simulate else ["--no-simulate"]
    return words + (["--timeline"] if options.timeline else [])


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Run the experiment; the status is 1 if any run of this session failed, or any job of a log.

    If it is interrupted, the answer has what is known so far.
    """
    named = hosts.chosen(options.hosts, options.hostfile)
    where = hosts.of_allocation() if options.allocation else named
    chosen_experiment = load(options, *where, here=True).through(options.through)
    conditions = thresholds_of(options, chosen_experiment)
    how = RunOptions(
        simulate=options.simulate,
        resume=options.resume,
        timeline=options.timeline,
        no_wait=options.no_wait,
        part=options.part,
        tau_s=options.slowdown_bound,
    )
    try:
        ran = application.run(chosen_experiment, options.results, watcher, how)
    except application.Stopped as stopped:
        results = stopped.ran.results
        shown = list(text.render(results))
        return Answer(results.document(), shown, status=INTERRUPTED, notes=(f"lockstep: {stopped}",))
    notes = [f"{len(ran.made)} runs recorded in {ran.store}{_earlier(ran, resumed=options.resume)}"]
    bad = 0
    for what, ours in (("runs", ran.made), ("simulations", ran.simulated)):
        if failed := sum(1 for record in ours if record.failure):
            notes.append(f"{failed} of {len(ours)} {what} failed")
            bad = 1
    results = ran.results
    folder = shlex.quote(str(options.results))
    following = "--resume repeats what failed" if bad else f"lockstep report {folder} --open"
    shown = [*text.render(results), Line(f"Next: {following}", "dim")]
    if options.open:
        all_runs = stored_runs.read(options.results, chosen_experiment.digest, watcher)[-1]
        report.write(page := Path("report.html"), "html", all_runs, options.results)
        show(page)
    status = 1 if bad or any(record.failed_jobs for record in ran.made) else 0
    answer = Answer(results.document(), shown, status=status, notes=tuple(notes))
    return judged(answer, results, options, conditions, "measured")


def _earlier(ran: Ran, *, resumed: bool) -> str:
    """What becomes of the runs of this experiment that were in the store before, in words."""
    if not ran.earlier:
        return ""
    if resumed:
        return f", {ran.earlier} found there"
    earlier = f"{ran.earlier} earlier runs of this experiment"
    return f"; reports use these and not its {earlier} (--resume extends them)"
