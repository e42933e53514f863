"""``lockstep policies``: policies, waiting rules, remedies, patterns, queues, mechanisms."""

import argparse
import inspect
from typing import Any

from coordinator import policies
from coordinator.host import mechanisms
from harness.commands import SCHEMA, Answer
from harness.measure.session import Watcher
from harness.report import listing
from workloads.machine import QUEUES
from workloads.options import REMEDIES
from workloads.patterns import PATTERNS
from workloads.waiting_rules import RULES


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", nargs="?", metavar="POLICY", help="show this policy in full")
    parser.add_argument(
        "--details",
        action="store_true",
        help="also list parameters and sources, waiting rules, remedies, patterns, queues and mechanisms",
    )


def execute(options: argparse.Namespace, watcher: Watcher) -> Answer:
    if options.policy is not None:
        policies.parameters(options.policy)  # complains of one that is unknown
        document = {"schema": SCHEMA, **_described(options.policy), "text": _text(options.policy)}
        return Answer(document, listing.policy(document))
    ways = [
        {"mechanism": name, "privilege": one.privilege, "worst_harm": one.harm}
        | {"unavailable": one.unavailable()}
        for name, one in mechanisms.known().items()
    ]
    choices = {"waiting": RULES, "remedies": REMEDIES, "patterns": PATTERNS, "queues": QUEUES}
    document = {
        "schema": SCHEMA,
        "policies": [_described(name) for name in policies.known()],
        **{name: list(values) for name, values in choices.items()},
        "mechanisms": ways,
    }
    return Answer(document, (listing.policies if options.details else listing.phrases)(document))


def _described(name: str) -> dict[str, Any]:
    policy = policies.known()[name]
    return {
        "policy": name,
        "what": _text(name).splitlines()[0],
        "parameters": policies.parameters(name),
        "source": policy.source,
        "stops_processes": policy.stops_processes,
    }


def _text(name: str) -> str:
    return inspect.getdoc(policies.known()[name]) or ""
