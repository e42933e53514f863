"""Documents of commands as lines and tables for a terminal: comparisons, settings, observations, papers."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.analyse.columns import CI95, Column, ends, fixed, interval
from harness.analyse.comparison import BETTER, NO_VERDICT, WORSE
from harness.analyse.results_document import ResultsDocument
from harness.analyse.rows import INTERVAL, Row, setting
from harness.analyse.statistics import CONFIDENCE, FEWEST
from harness.report.cells import Line, Part, Table, listed, warning_lines
from harness.spec.naming import setting_names
from harness.spec.settings import AS_IT_IS

Document = Mapping[str, Any]

STYLES = {BETTER: "green", WORSE: "bold red", NO_VERDICT: "dim"}


def before_after(document: Document) -> Iterator[Part]:
    """One experiment of ``commands.before_after``: warnings, a row for each comparison, and counts."""
    digests = ", ".join(digest[:8] for digest in dict.fromkeys(document["digests"]))
    yield Line(f"{document['experiment']} ({digests}): slowdowns", style="bold")
    for one in document["differences"]:
        yield f"Differs: {one['field']}: {one['before']!r} before, {one['after']!r} after."
    yield from warning_lines(document["warnings"])
    rows = document["rows"]
    settings = setting_names(dict.fromkeys(key for row in rows for key in row["settings"]))
    changes = [setting(key, heading) for key, heading in settings.items()]
    if len({row["workload"] for row in rows}) > 1 and not settings:
        changes.append(Column("workload", "jobs", words=True))
    yield listed([*changes, *COMPARED], rows)
    counts = Counter(row["verdict"] for row in rows)
    yield ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()) + "."
    judged = sum(count for verdict, count in counts.items() if verdict != NO_VERDICT)
    if judged > 1:
        chance = (1 - CONFIDENCE) * judged
        yield f"If nothing differed, chance would call {chance:.1f} of {judged} rows better or worse."


def _schedulers(row: Document) -> str:
    names = row["scheduler_before"], row["scheduler_after"]
    return " -> ".join(dict.fromkeys(name for name in names if name))


def _verdict(row: Document) -> Line:
    reason = f": {row['reason']}" if row["reason"] else ""
    return Line(row["verdict"] + reason, style=STYLES.get(row["verdict"], ""))


COMPARED = [
    Column(_schedulers, "scheduler", words=True),
    Column("before", "before", fixed),
    Column("after", "after", fixed),
    Column("ratio", "after/\nbefore", "{:.3f}".format),
    Column(lambda row: row["low"] and (row["low"], row["high"]), "95 %\ninterval", interval),
    Column(lambda row: row, "verdict", _verdict, words=True),
]


def tune(results: ResultsDocument, document: Document) -> Iterator[Part]:
    """A row for each setting; which of them is best, as ``document`` says, and how to set it."""
    if results.notice:
        yield Line(results.notice, style="bold yellow")
        yield listed(_of_settings(results.rows), results.rows)
        yield "No advice: repeat it when the other programs have ended."
        return
    yield from warning_lines(results.warnings)
    if document["dedicated_s"]["n"]:
        yield _alone(document)
    yield listed(_of_settings(results.rows), results.rows)
    for missing in document["unavailable"]:
        yield f"There is no {missing['name']} ({missing['library']} {missing['versions']}) here."
    chosen = next((row for row in results.rows if row.name == document["fastest"]), None)
    if chosen is None:
        yield "No setting is known to be best: none ended in time."
        return
    yield from _verdict_on_settings(chosen, document, warned=bool(results.warnings))
    yield f"To have {chosen.name}:" if chosen.scheduler["lines"] else "There is nothing to set."
    yield from (f"    {line}" for line in chosen.scheduler["lines"])


def _alone(document: Document) -> str:
    alone = document["dedicated_s"]
    rounds = f"{alone['n']} round{'' if alone['n'] == 1 else 's'}"
    between = f" ({interval(alone['ci95'] or alone['extremes'], alone['n'])})" if alone["n"] > 1 else ""
    how = "As it is and alone" if "command" in document else "As they are, one after the other"
    return f"{how}: {alone['median']:.2f} s{between}, the median of {rounds}."


def _verdict_on_settings(fastest: Row, document: Document, *, warned: bool) -> Iterator[Part]:
    if document["best"]:
        yield Line(f"Best: {fastest.name}.", style="" if warned else "bold")
        return
    if fastest.measured and not fastest.measured.workload_slowdown.ci95:
        yield f"Fastest by median: {fastest.name}. Noise is unknown: that takes --rounds {FEWEST}."
        return
    if AS_IT_IS in (fastest.name, *document["as_good"]):
        yield f"No setting is best beyond noise. Fastest by median: {fastest.name}."
    else:
        yield f"With {fastest.name} it is faster than as it is, beyond noise. Other settings may be as good."
    overlapping = ", ".join(document["as_good"])
    yield f"Intervals that overlap with its own: {overlapping}. More --rounds may tell more."


def _of_settings(rows: Sequence[Row]) -> list[Column]:
    jobs = len(rows[0].jobs)
    dedicated = "dedicated\nover as it is"
    together = f"{jobs} at a time\nover their sum" if jobs > 1 else dedicated
    apart = [Column("measured.dedicated.median", dedicated, fixed), Column("measured.dedicated", CI95, ends)]
    return [
        Column("name", "setting", words=True),
        *(apart if jobs > 1 else ()),
        Column(_slowdown, together),
        INTERVAL,
        Column(_cpu_s, "CPU\ntime, s", "{:.1f}".format),
    ]


def _slowdown(row: Row) -> str | None:
    if row.measured and row.measured.exceeded:
        return f"> {row.measured.exceeded:g}"
    median = row.median("measured")
    return None if median is None else fixed(median)


def _cpu_s(row: Row) -> float | None:
    cpu = row.measured and row.measured.cpu_s
    return sum(cpu) if cpu else None


MOST_KINDS = 8


def jobs_table(program: Document) -> str:
    fields = ", ".join(f"{name} = {json.dumps(value)}" for name, value in program.items())
    return f"[[jobs]]\ncount = 3\nprogram = {{ {fields} }}"


def observation(document: Document) -> Iterator[Part]:
    yield from warning_lines(document["warnings"])
    share = f"{document['computing']:.1%} computing, {document['in_mpi']:.1%} in MPI"
    yield f"{document['processes']} ranks, {document['elapsed_s']:.2f} s alone: {share}."
    yield _kept(document)
    if document["computing_us"]:
        yield _phases(document)
    yield listed(KINDS, document["kinds"][:MOST_KINDS])
    if document["program"]:
        yield "The nearest synthetic program, for an experiment file:"
        yield from (f"    {line}" for line in jobs_table(document["program"]).splitlines())
    else:
        yield "It has no phases in which its ranks compute and then wait for each other."
    yield f"Recorded in {document['recording']}"


def _kept(document: Document) -> str:
    parts = [f"{document['operations']} operations, {document['kept']} of them kept"]
    if document["start_up_s"]:
        parts.append(f"start-up {document['start_up_s']:.2f} s")
    parts.append(f"{document['covered']:.0%} of the time after it in {document['stretches']} stretches")
    if document["variation"] is not None:
        parts.append(f"whose mean phases vary by {document['variation']:.1%}")
    return ", ".join(parts) + "."


def _phases(document: Document) -> str:
    spread = document["computing_us"]
    counts = document["per_phase"]
    between = document["between_ranks"]
    return (
        f"{document['phases']} phases a rank: {spread['median']:.4g} us of computing (median), "
        f"5 to 95 %: {spread['p5']:.4g} to {spread['p95']:.4g}; the busiest rank computes "
        f"{between or 0:.1%} more than the mean. Per phase {counts['operations']:.2g} operations, "
        f"{counts['messages']:.2g} messages, {counts['collectives']:.2g} collective, "
        f"{counts['bytes']:.4g} bytes."
    )


KINDS = [
    Column("kind", "operation", words=True),
    Column("operations", "number"),
    Column("bytes", "bytes"),
    Column("within_s", "time in it, s", "{:.3f}".format),
]


def reproduction(document: Document, pictures: Sequence[Path]) -> Iterator[Part]:
    """Cells alongside their published values, claims with their verdicts, and the paths of the pictures."""
    yield Line(document["title"], style="bold")
    published = [cell for cell in document["cells"] if cell.get("paper") is not None]
    if published:
        yield _published(published)
    if document["claims"]:
        yield listed(CLAIMS, document["claims"])
    if document["note"]:
        yield Line(document["note"], style="dim")
    for path in pictures:
        yield str(path)


def _claim_verdict(claim: Document) -> str:
    places = f" ({' against '.join(claim['places'])})" if claim["places"] else ""
    return f"{claim['verdict']}{places}" + (f": {claim['reason']}" if claim["reason"] else "")


CLAIMS = [
    Column("figure", "figure", words=True),
    Column("text", "claim", words=True),
    Column("found", "found", words=True),
    Column(_claim_verdict, "verdict", words=True),
]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _published(cells: Sequence[Document]) -> Table:
    plain = [key for key, value in cells[0].items() if isinstance(value, str | int | float)]
    plain = [key for key in plain if not key.startswith(("simulated", "spun", "paper"))]
    telling = [Column(key, key, _plain) for key in plain if len({cell[key] for cell in cells}) > 1]
    return listed([*telling, Column("simulated", "simulated", fixed), Column("paper", "paper", fixed)], cells)
