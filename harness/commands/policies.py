"""``lockstep policies``: the policies, waiting rules and mechanisms."""

from __future__ import annotations

import argparse
import inspect

from coordinator import policies
from coordinator.host import mechanisms
from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from harness.report import listing
from workloads.blocking import RULES


def arguments(parser: argparse.ArgumentParser) -> None:
    """This command has no arguments."""


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    """List policies with parameters and source, waiting rules, and mechanisms with their harm."""
    known = [
        {
            "policy": name,
            "what": (inspect.getdoc(policy) or "").splitlines()[0],
            "parameters": policies.parameters(name),
            "source": policy.source,
            "needs_mechanism": policy.needs_mechanism,
        }
        for name, policy in policies.known().items()
    ]
    ways = [
        {
            "mechanism": name,
            "privilege": mechanism.privilege,
            "worst_harm": mechanism.harm,
            "unavailable": mechanism.unavailable(),
        }
        for name, mechanism in mechanisms.known().items()
    ]
    document = {"schema": SCHEMA, "policies": known, "blocking": list(RULES), "mechanisms": ways}
    return Answer(document, listing.policies(document))
