"""The runs of an A/A check (``lockstep doctor --aa``): pairs of equal runs, one after the other."""

from __future__ import annotations

from harness.measure import runner
from harness.measure.measured import Measured
from harness.measure.plan import Task, plan
from harness.measure.session import Site, Watcher, constants
from harness.spec import experiment
from harness.spec.experiment import Experiment
from harness.store.records import DEDICATED, RunRecord

PROCESSORS = 2

WRITTEN = {
    "name": "aa",
    "processors": PROCESSORS,
    "jobs": [{"count": 2, "program": {"processes": 2, "granularity_us": 100, "dedicated_s": 0.5}}],
    "schedulers": [{"policy": "gang", "quantum_ms": 20}],
}


def aa_experiment(pairs: int) -> Experiment:
    """The experiment to check with: two fine-grained jobs under gang scheduling; a pair is two repeats.

    Raises:
        InputError: for a bad number of pairs, or on a host with one processor.
    """
    return experiment.load({**WRITTEN, "repeats": 2 * pairs}, here=True)


def run(wanted: Experiment, site: Site, watcher: Watcher) -> list[RunRecord]:
    """The records of all runs: of each pair one dedicated run, and two under the scheduler.

    Raises:
        StoreError: if a record cannot be written.
    """
    nominal = constants([])
    back_end = Measured(site, lambda task: nominal, watcher.note)
    return list(runner.run(_tasks(wanted), back_end, site.store, watcher))


def _tasks(wanted: Experiment) -> list[Task]:
    """The runs of the experiment without the dedicated one of every second repeat."""
    return [task for task in plan(wanted) if task.kind != DEDICATED or task.repeat % 2 == 0]
