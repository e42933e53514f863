"""Tables of policies, mechanisms and machine constants."""

import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import shorten
from typing import Any

from harness.analyse.columns import minute
from harness.analyse.comparison import EXPECTED, POWER
from harness.report.cells import Heading, Line, Part, Table, table, warning_lines
from workloads.constants import CONSTANTS

MEANING = {one.quantity.removesuffix("_ns"): one.meaning for one in CONSTANTS} | {
    "local_switch_pair": "mean of the two switches of a single read: how much switches differ",
    "skew": "time between the first and the last processor in a slot switch",
    "reload": "additional time of a walk through the working set after another process's walk",
    "move": "additional time of a walk through the working set after a move to another processor",
}
"""What the quantities of a calibration are."""


def constants(document: Mapping[str, Any]) -> Iterator[Part]:
    listing = table(
        ("constant", "meaning"), ("median\nus", "95 %\ninterval", "p10\nus", "p90\nus", "samples\n")
    )
    for row in document["constants"]:
        numbers = [f"{row[key]:.2f}" for key in ("median_us", "p10_us", "p90_us")]
        numbers.insert(1, "{:.2f}-{:.2f}".format(*row["ci95_us"]) if row["ci95_us"] else "-")
        meaning = MEANING.get(row["quantity"].split()[0], "")
        listing.add_row(row["quantity"], meaning, *numbers, str(row["n"]))
    yield from warning_lines(document["warnings"])
    yield listing


def policy(document: Mapping[str, Any]) -> Iterator[Part]:
    yield Line(document["policy"], style="bold")
    yield document["text"]
    yield ""
    for key, value in document["parameters"].items():
        yield f"{key} = {value!r}"
    yield f"Source: {document['source']}"
    if document["stops_processes"]:
        yield "It needs a mechanism to stop processes: lockstep policies --details lists them."


def phrases(document: Mapping[str, Any]) -> Iterator[Part]:
    """A line for each policy, of at most 80 characters."""
    for row in document["policies"]:
        phrase = re.split("[:;]", row["what"].rstrip("."))[0].replace("``", "")
        yield f"{row['policy']:<21} {shorten(phrase, 58, placeholder=' ...')}"
    yield Line("\nNext: lockstep policies gang, lockstep show gang, lockstep policies --details", "dim")


def policies(document: Mapping[str, Any]) -> Iterator[Part]:
    listing = _ruled("Policies", "policy", "what it does", "parameters", "source")
    for row in document["policies"]:
        parameters = ", ".join(f"{key} = {value!r}" for key, value in row["parameters"].items())
        listing.add_row(row["policy"], row["what"], parameters or "none", row["source"])
    yield listing
    yield "\nWaiting rules (key waiting): " + ", ".join(document["waiting"])
    yield "Remedies in critical sections (remedy.kind): " + ", ".join(document["remedies"])
    yield "Patterns of programs (pattern): " + ", ".join(document["patterns"])
    yield "Simulated queues (machine.queue): " + ", ".join(document["queues"]) + "\n"
    listing = _ruled("Mechanisms", "mechanism", "privilege", "here", "worst harm")
    for row in document["mechanisms"]:
        here = row["unavailable"] or "available"
        listing.add_row(row["mechanism"], row["privilege"] or "none", here, row["worst_harm"])
    yield listing


def _ruled(title: str, *headings: str) -> Table:
    return Table([*map(Heading, headings)], title, ruled=True)


def experiments(document: Mapping[str, Any]) -> Iterator[Part]:
    if document["experiments"]:
        counts = ("measured", "simulated", "failed")
        listing = table((), ("sched. x\ncells x\nrepeats", "mea-\nsured", "simu-\nlated", "failed"))
        listing.headings += [Heading("last run, UTC", wrap=False), Heading("experiment (digest)")]
        for row in document["experiments"]:
            size = " x ".join(str(row[key]) for key in ("schedulers", "cells", "repeats"))
            numbers = (str(row[key]) for key in counts)
            last = minute(row["last"])
            listing.add_row(size, *numbers, last, f"{row['experiment']} ({row['digest'][:8]})")
        yield listing
    for row in document["job_level"]:
        last = f"the last at {minute(row['last'])} UTC"
        yield f"{row['experiment']}: {row['schedulers']} simulated schedules of jobs, {last}"
    if not (document["experiments"] or document["job_level"]):
        yield "no runs"


def findings(document: Mapping[str, Any]) -> Iterator[Part]:
    listing = table(("", "on this host", "remedy"))
    for row in document["findings"]:
        style = "bold yellow" if row["remedy"] else ""
        listing.add_row(row["subject"], row["found"], row["remedy"], style=style)
    yield listing
    wrong = sum(bool(row["remedy"]) for row in document["findings"])
    yield (f"{wrong} of {len(document['findings'])} disturb measurements." if wrong else "Nothing disturbs.")
    if "self_test" in document:
        yield from _aa_check(document["self_test"], document["failures"])


def _aa_check(check: Mapping[str, Any] | None, failures: Sequence[str]) -> Iterator[Part]:
    yield ""
    yield from warning_lines(f"{len(failures)} runs failed; the first: {failures[0]}" for _ in failures[:1])
    if check is None:
        yield "A/A check: too few pairs of runs succeeded."
        return
    share = check["false_positives"]
    repeats = check["repeats"]
    yield (
        f"A/A check, {check['pairs']} pairs of equal runs: {check['different']} of {check['comparisons']} "
        f"comparisons of {repeats} repeats call the same scheduler different (false positives: {share:.1%})."
    )
    if share > EXPECTED:
        yield from warning_lines(
            [f"that is more than {EXPECTED:.0%}: this host drifts; measure more repeats"]
        )
    yield (
        f"The smallest difference that {POWER:.0%} of comparisons of {repeats} repeats tell here: "
        f"{check['smallest']:.1%} of a slowdown."
    )
