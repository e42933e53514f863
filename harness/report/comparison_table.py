"""What is better or worse than before, as a table for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from harness.analyse.comparison import BETTER, NO_VERDICT, WORSE
from harness.analyse.statistics import CONFIDENCE
from harness.report.cells import doubts, fixed, interval, table
from harness.spec.naming import setting_names

HEADINGS = ("before", "after", "after/\nbefore", "95 %\ninterval")

STYLES = {BETTER: "green", WORSE: "bold red", NO_VERDICT: "dim"}


def render(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    """One experiment of ``commands.before_after``: doubts, a row for each comparison, and counts."""
    digests = ", ".join(digest[:8] for digest in dict.fromkeys(document["digests"]))
    yield Text(f"{document['experiment']} ({digests}): workload slowdowns", style="bold")
    for one in document["differences"]:
        yield Text(f"Differs: {one['field']}: {one['before']!r} before, {one['after']!r} after.")
    yield from doubts(document["doubts"])
    yield _table(document["rows"])
    counts = Counter(row["verdict"] for row in document["rows"])
    yield Text(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) + ".")
    judged = sum(count for verdict, count in counts.items() if verdict != NO_VERDICT)
    if judged > 1:
        chance = (1 - CONFIDENCE) * judged
        yield Text(f"If nothing differed, chance would call {chance:.1f} of {judged} rows better or worse.")


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    settings = setting_names(dict.fromkeys(key for row in rows for key in row["settings"]))
    workloads = {row["workload"] for row in rows}
    jobs = ["jobs"] if len(workloads) > 1 and not settings else []
    made = table([*settings.values(), *jobs, "scheduler"], HEADINGS)
    made.add_column("verdict")
    for row in rows:
        names = dict.fromkeys(name for name in (row["scheduler_before"], row["scheduler_after"]) if name)
        words = [str(row["settings"].get(key, "")) for key in settings]
        words += [row["workload"]] if jobs else []
        ends = None if row["low"] is None else (row["low"], row["high"])
        numbers = (fixed(row["before"]), fixed(row["after"]), fixed(row["ratio"], 3), interval(ends))
        reason = f": {row['reason']}" if row["reason"] else ""
        verdict = Text(row["verdict"] + reason, style=STYLES.get(row["verdict"], ""))
        made.add_row(*words, " -> ".join(names), *numbers, verdict)
    return made
