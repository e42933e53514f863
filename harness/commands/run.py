"""``lockstep run EXPERIMENT``: measure every scheduler against dedicated runs."""

import argparse
import shlex
from pathlib import Path

from harness import INTERRUPTED, application
from harness.analyse import stored_runs
from harness.application import Ran, RunOptions
from harness.commands import Answer, report
from harness.commands.shared import EXPERIMENT, MEASURING, VERDICTS, add, judged, load, show, thresholds_of
from harness.measure.session import Watcher
from harness.report import text
from harness.report.cells import Line
from harness.spec import hosts, overrides
from slurm import allocation


def arguments(parser: argparse.ArgumentParser) -> None:
    add(parser, *EXPERIMENT, *MEASURING)
    where = parser.add_mutually_exclusive_group()
    help_text = "run on these hosts, each with its number of processors"
    where.add_argument("--hosts", metavar="A:N,B:N", help=help_text)
    where.add_argument(
        "--hostfile", type=Path, metavar="FILE", help="read the hosts from a file, one on each line"
    )
    where.add_argument("--allocation", action="store_true", help="run on the nodes of this Slurm allocation")
    help_text = "run only part K of N of the sweep (see lockstep collect)"
    parser.add_argument("--part", metavar="K/N", help=help_text)
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
    """Run the experiment; the status is 1 if any run of this session failed.

    If it is interrupted, the answer has what is known so far.
    """
    where = hosts.of_allocation() if options.allocation else []
    entries = hosts.read(options.hostfile) if options.hostfile else allocation.split(options.hosts or "")
    origin = f"--hosts {options.hosts}" if options.hosts else f"--hostfile {options.hostfile}"
    where += [overrides.make("hosts", entries, origin)] if any(entries) else []
    chosen_experiment = load(options, *where, here=True)
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
    answer = Answer(results.document(), shown, status=bad, notes=tuple(notes))
    return judged(answer, results, options, conditions, "measured")


def _earlier(ran: Ran, *, resumed: bool) -> str:
    """What becomes of the runs of this experiment that were in the store before, in words."""
    if not ran.earlier:
        return ""
    if resumed:
        return f", {ran.earlier} found there"
    earlier = f"{ran.earlier} earlier runs of this experiment"
    return f"; reports use these and not its {earlier} (--resume extends them)"
