"""A run as events of a Chrome trace, which Perfetto and chrome://tracing show; also in Perfetto's own format.

Sources of the formats: "Trace Event Format", Google 2016; Perfetto, "Legacy JSON trace format" and "Writing
TrackEvent Protos Synthetically", and the comments of ``track_event.proto``.
"""

import zlib
from collections import Counter, defaultdict
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
    found, ends = [], Counter[tuple[int, str]]()
    for event in events:
        if event["ph"] == "M":
            found.append(event)
        elif event["ph"] == "X":
            first, last = max(event["ts"], begin_us), min(event["ts"] + event["dur"], end_us)
            if first < last:
                found.append(event | {"ts": first, "dur": last - first})
        elif begin_us <= event["ts"] < end_us:
            found.append(event)
            ends[event["pid"], event["id"]] += 1
    return [event for event in found if "id" not in event or ends[event["pid"], event["id"]] == 2]


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
        thread, name = threads[span.job, span.rank], STATES.get(span.state, span.state)
        times = span.begin_ns - start_ns, span.end_ns - span.begin_ns
        yield _slice(side.pid, thread, name, "rank", *times, processor=span.processor)
    yield from _slots(side, start_ns)
    yield from _flows(side, threads, start_ns)


def _slots(side: Side, start_ns: int) -> Iterator[Event]:
    if not side.switches:
        return
    yield from _named(side.pid, SLOTS, "slots")
    begins = [switch.due_ns + switch.lateness_ns for switch in side.switches]
    ends = [*begins[1:], max(span.end_ns for span in side.spans)]
    for switch, begin, end in zip(side.switches, begins, ends, strict=True):
        if end > begin >= start_ns:
            times, name = (begin - start_ns, end - begin), f"slot {switch.slot}"
            late_us, skew_us = switch.lateness_ns / 1e3, switch.skew_ns / 1e3
            yield _slice(side.pid, SLOTS, name, "slot", *times, lateness_us=late_us, skew_us=skew_us)


def _flows(side: Side, threads: Mapping[tuple[int, int], int], start_ns: int) -> Iterator[Event]:
    """A flow for each message both of whose ends are known."""
    sent = {(job, m.sender, m.receiver, m.count): m for job, m in side.messages if m.sent}
    kinds = ("arrival", "completion", "request", "response")
    for job, message in side.messages:
        if message.sent or (job, message.sender, message.receiver, message.count) not in sent:
            continue
        before = sent[job, message.sender, message.receiver, message.count]
        common = {
            "cat": "message",
            "name": kinds[message.kind],
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


SEQUENCE = {"trusted_packet_sequence_id": 1}
STATE_CLEARED, NEEDS_STATE = 1, 2
"""Flags of a packet: it begins the table of interned names, or it uses the table."""

NAMES, CATEGORIES, NOTES = INTERNED = ("event_names", "event_categories", "debug_annotation_names")
FLOW_KEYS = {"s": "flow_ids", "f": "terminating_flow_ids"}
ENDS, BEGINS = 0, 1  # at one instant slices end before others begin


def protobuf(events: Iterable[Event]) -> bytes:
    """Events as a compressed Trace of Perfetto, times in nanoseconds; ImportError without its package."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto  # noqa: PLC0415 - an extra

    numbers: dict[str, dict[Any, int]] = defaultdict(dict)
    tracks: dict[int, Any] = {}
    timed: list[tuple[int, int, Any]] = []

    def number(table: str, key: Any) -> int:
        return numbers[table].setdefault(key, len(numbers[table]) + 1)

    for event in events:
        of_track = event["ph"] == "M"
        kind, _, what = event["name"].partition("_") if of_track else ("thread", "", "")
        process = number("tracks", event["pid"])
        uuid = process if kind == "process" else number("tracks", (event["pid"], event["tid"]))
        if of_track:
            track = tracks.setdefault(uuid, proto.TrackDescriptor(uuid=uuid))
            described = getattr(track, kind)
            described.pid = event["pid"]
            if kind == "thread":
                described.tid, track.parent_uuid = event["tid"], process
            (value,) = event["args"].values()
            setattr(described, f"{kind}_name" if what == "name" else "legacy_sort_index", value)
            continue
        made = proto.TrackEvent(track_uuid=uuid, name_iid=number(NAMES, event["name"]))
        made.category_iids.append(number(CATEGORIES, event["cat"]))
        for key, value in event.get("args", {}).items():
            note = made.debug_annotations.add(name_iid=number(NOTES, key))
            setattr(note, "int_value" if isinstance(value, int) else "double_value", value)
        timed.append((round(event["ts"] * 1e3), BEGINS, made))
        if event["ph"] == "X":
            made.type = proto.TrackEvent.TYPE_SLICE_BEGIN
            end = proto.TrackEvent(track_uuid=uuid, type=proto.TrackEvent.TYPE_SLICE_END)
            timed.append((round((event["ts"] + event["dur"]) * 1e3), ENDS, end))
        else:
            made.type = proto.TrackEvent.TYPE_INSTANT
            getattr(made, FLOW_KEYS[event["ph"]]).append(number("flows", (event["pid"], event["id"])))
    trace = proto.Trace()
    first = trace.packet.add(sequence_flags=STATE_CLEARED, **SEQUENCE)
    for track in tracks.values():
        trace.packet.add(**SEQUENCE).track_descriptor.CopyFrom(track)
    for time_ns, _, made in sorted(timed, key=lambda one: one[:2]):
        packet = trace.packet.add(timestamp=time_ns, sequence_flags=NEEDS_STATE, **SEQUENCE)
        packet.track_event.CopyFrom(made)
    for table in INTERNED:
        for name, iid in numbers[table].items():
            getattr(first.interned_data, table).add(iid=iid, name=name)
    whole = proto.Trace()
    whole.packet.add(compressed_packets=zlib.compress(trace.SerializeToString()))
    found: bytes = whole.SerializeToString()
    return found
