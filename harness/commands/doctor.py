"""``lockstep doctor``: what on this host disturbs measurements, and what to do about it."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from harness.commands import SCHEMA, Answer
from harness.measure import host_check
from harness.measure.session import Watcher
from harness.report import listing
from harness.spec.experiment import usable_processors
from workloads.bounds import within


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    help_text = "of those that this process may use, the first N (default: all)"
    parser.add_argument("--processors", type=int, default=0, metavar="N", help=help_text)


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """Check the host; the status is 1 if something has a remedy.

    Raises:
        InputError: for a bad number of processors.
    """
    within("processors", options.processors, "--processors")
    watcher.note("watching the processors")
    processors = usable_processors()[: options.processors or None]
    findings = list(host_check.check(processors))
    document = {"schema": SCHEMA, "findings": [asdict(finding) for finding in findings]}
    status = 1 if any(finding.remedy for finding in findings) else 0
    return Answer(document, listing.findings(document), status=status)
