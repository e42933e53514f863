"""A run as events of a Chrome trace, which Perfetto and chrome://tracing show.

Sources of the format: "Trace Event Format", Google 2016; Perfetto, "Legacy JSON trace format".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coordinator.workload import Switch
from harness.analyse import timelines
from harness.analyse.timelines import Message, Span

Event = dict[str, Any]

MEASURED, SIMULATED = 1, 2  # process ids of the two sides in the trace

SLOTS, RANKS = 900, 1000
"""Thread ids: a processor has its own number, the table of slots SLOTS, ranks follow RANKS."""

MESSAGES = ("arrival", "completion", "request", "response")
"""Names of messages by their kinds."""

STATES = {
    timelines.COMMUNICATING: "read: spin",
    timelines.SYNCHRONIZING: "barrier: spin",
    timelines.BLOCKED: "wait: blocked",
    timelines.PREEMPTED: "ready: another runs",
}


@dataclass(frozen=True)
class Side:
    """One side of the trace: the spans, messages and slot switches of a run."""

    pid: int
    name: str
    spans: Sequence[Span]
    messages: Sequence[tuple[int, Message]] = ()
    switches: Sequence[Switch] = ()


def document(sides: Iterable[Side]) -> dict[str, Any]:
    """The whole trace: {"traceEvents": [...], "displayTimeUnit": "ns"}, times in microseconds.

    Each side is a process that begins at 0. Its threads are its processors (with the job on each), its slots,
    and its ranks (with the state of each); messages are flows between ranks.
    """
    events = [event for side in sides for event in _events(side)]
    return {"traceEvents": events, "displayTimeUnit": "ns"}


def windowed(events: Iterable[Event], begin_us: float, end_us: float) -> list[Event]:
    """The part of the events between two times; slices are cut, and messages have both ends or none."""
    kept = []
    ends = Counter[tuple[int, str]]()
    for event in events:
        if event["ph"] == "M":
            kept.append(event)
        elif event["ph"] == "X":
            first = max(event["ts"], begin_us)
            last = min(event["ts"] + event["dur"], end_us)
            if first < last:
                kept.append(event | {"ts": first, "dur": last - first})
        elif begin_us <= event["ts"] < end_us:
            kept.append(event)
            ends[event["pid"], event["id"]] += 1
    return [event for event in kept if "id" not in event or ends[event["pid"], event["id"]] == 2]


def _events(side: Side) -> Iterator[Event]:
    if not side.spans:
        return
    start_ns = min(span.begin_ns for span in side.spans)
    ranks = sorted({(span.job, span.rank) for span in side.spans})
    threads = {rank: RANKS + number for number, rank in enumerate(ranks)}
    yield _meta(side.pid, 0, "process_name", name=side.name)
    yield _meta(side.pid, 0, "process_sort_index", sort_index=side.pid)
    for processor, lane in sorted(timelines.occupancy(side.spans).items()):
        yield from _named(side.pid, processor, f"processor {processor}")
        for span in lane:
            times = span.begin_ns - start_ns, span.end_ns - span.begin_ns
            yield _slice(side.pid, processor, f"job {span.job}", "processor", *times, rank=span.rank)
    for (job, rank), thread in threads.items():
        yield from _named(side.pid, thread, f"job {job}, rank {rank}")
    for span in side.spans:
        thread = threads[span.job, span.rank]
        name = STATES.get(span.state, span.state)
        times = span.begin_ns - start_ns, span.end_ns - span.begin_ns
        yield _slice(side.pid, thread, name, "rank", *times, processor=span.processor)
    yield from _slots(side, start_ns)
    yield from _flows(side, threads, start_ns)


def _slots(side: Side, start_ns: int) -> Iterator[Event]:
    if not side.switches:
        return
    yield from _named(side.pid, SLOTS, "slots")
    begins = [switch.due_ns + switch.switch_delay_ns for switch in side.switches]
    ends = [*begins[1:], max(span.end_ns for span in side.spans)]
    for switch, begin, end in zip(side.switches, begins, ends, strict=True):
        if end > begin >= start_ns:
            times = (begin - start_ns, end - begin)
            name = f"slot {switch.slot}"
            late_us = switch.switch_delay_ns / 1e3
            skew_us = switch.skew_ns / 1e3
            yield _slice(side.pid, SLOTS, name, "slot", *times, switch_delay_us=late_us, skew_us=skew_us)


def _flows(side: Side, threads: Mapping[tuple[int, int], int], start_ns: int) -> Iterator[Event]:
    """A flow for each message both of whose ends are known."""
    sent = {(job, m.sender, m.receiver, m.count): m for job, m in side.messages if m.sent}
    for job, message in side.messages:
        if message.sent or (job, message.sender, message.receiver, message.count) not in sent:
            continue
        before = sent[job, message.sender, message.receiver, message.count]
        common = {
            "cat": "message",
            "name": MESSAGES[message.kind],
            "pid": side.pid,
            "id": f"{job}.{message.sender}.{message.receiver}.{message.count}",
        }
        at_us = (max(message.at_ns, before.at_ns) - start_ns) / 1e3
        sent_us = (before.at_ns - start_ns) / 1e3
        yield common | {"ph": "s", "tid": threads[job, message.sender], "ts": sent_us}
        yield common | {"ph": "f", "bp": "e", "tid": threads[job, message.receiver], "ts": at_us}


def _slice(
    pid: int, tid: int, name: str, category: str, begin_ns: int, lasts_ns: int, **more: float
) -> Event:
    times = {"ts": begin_ns / 1e3, "dur": lasts_ns / 1e3}
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "cat": category, **times, "args": more}


def _named(pid: int, tid: int, name: str) -> Iterator[Event]:
    yield _meta(pid, tid, "thread_name", name=name)
    yield _meta(pid, tid, "thread_sort_index", sort_index=tid)


def _meta(pid: int, tid: int, what: str, **values: Any) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": values}
