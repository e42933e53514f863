"""A trace in Perfetto's own format, compressed: a tenth of the same trace as JSON, or less.

It needs the package perfetto, an extra of this one. Source of the format: Perfetto, "Writing TrackEvent
Protos Synthetically", and the comments of ``track_event.proto``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

SEQUENCE = 1
STATE_CLEARED, NEEDS_STATE = 1, 2
"""Flags of a packet: it begins the table of interned names, or it uses the table."""

FLOW_KEYS = {"s": "flow_ids", "f": "terminating_flow_ids"}
ENDS, BEGINS = 0, 1
"""At one instant slices end before others begin."""


def encode(events: Iterable[Mapping[str, Any]]) -> bytes:
    """The events of ``perfetto.document`` as a serialized Trace; times are rounded to nanoseconds.

    Raises:
        ImportError: if there is no package perfetto.
    """
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto  # noqa: PLC0415 - an extra

    return _Encoder(proto).trace(list(events))


class _Encoder:
    """Interns names, and makes packets of events."""

    def __init__(self, proto: Any) -> None:
        self._proto = proto
        self._tables: dict[str, dict[str, int]] = {}
        self._flows: dict[str, int] = {}
        self._tracks: dict[tuple[int, int | None], int] = {}

    def trace(self, events: list[Mapping[str, Any]]) -> bytes:
        trace = self._proto.Trace()
        first = trace.packet.add(trusted_packet_sequence_id=SEQUENCE, sequence_flags=STATE_CLEARED)
        for descriptor in self._descriptors(events):
            trace.packet.add(trusted_packet_sequence_id=SEQUENCE).track_descriptor.CopyFrom(descriptor)
        for time_ns, _, event in sorted(self._timed(events), key=lambda one: one[:2]):
            flags = {"trusted_packet_sequence_id": SEQUENCE, "sequence_flags": NEEDS_STATE}
            trace.packet.add(timestamp=time_ns, **flags).track_event.CopyFrom(event)
        for table, known in self._tables.items():
            for name, number in known.items():
                getattr(first.interned_data, table).add(iid=number, name=name)
        whole = self._proto.Trace()
        whole.packet.add(compressed_packets=zlib.compress(trace.SerializeToString()))
        made: bytes = whole.SerializeToString()
        return made

    def _descriptors(self, events: Iterable[Mapping[str, Any]]) -> list[Any]:
        """A track for each process and thread, from the metadata events."""
        tracks: dict[int, Any] = {}
        for event in events:
            if event["ph"] != "M":
                continue
            kind, _, what = event["name"].partition("_")  # as in "thread_sort_index"
            uuid = self._track(event if kind == "thread" else {"pid": event["pid"]})
            track = tracks.setdefault(uuid, self._proto.TrackDescriptor(uuid=uuid))
            described = getattr(track, kind)
            described.pid = event["pid"]
            if kind == "thread":
                described.tid, track.parent_uuid = event["tid"], self._track({"pid": event["pid"]})
            if what == "name":
                setattr(described, f"{kind}_name", event["args"]["name"])
            else:
                described.legacy_sort_index = event["args"]["sort_index"]
        return list(tracks.values())

    def _timed(self, events: Iterable[Mapping[str, Any]]) -> Iterable[tuple[int, int, Any]]:
        """The slices and messages with their times."""
        kinds = self._proto.TrackEvent
        for event in events:
            if event["ph"] == "M":
                continue
            begin_ns = round(event["ts"] * 1e3)
            if event["ph"] == "X":
                end_ns = round((event["ts"] + event["dur"]) * 1e3)
                yield begin_ns, BEGINS, self._named(event, kinds.TYPE_SLICE_BEGIN)
                yield end_ns, ENDS, kinds(track_uuid=self._track(event), type=kinds.TYPE_SLICE_END)
            else:
                made = self._named(event, kinds.TYPE_INSTANT)
                flow = self._flows.setdefault(f"{event['pid']}.{event['id']}", len(self._flows) + 1)
                getattr(made, FLOW_KEYS[event["ph"]]).append(flow)
                yield begin_ns, BEGINS, made

    def _named(self, event: Mapping[str, Any], kind: int) -> Any:
        made = self._proto.TrackEvent(track_uuid=self._track(event), type=kind)
        made.name_iid = self._number("event_names", event["name"])
        made.category_iids.append(self._number("event_categories", event["cat"]))
        for key, value in event.get("args", {}).items():
            note = made.debug_annotations.add(name_iid=self._number("debug_annotation_names", key))
            setattr(note, "int_value" if isinstance(value, int) else "double_value", value)
        return made

    def _track(self, event: Mapping[str, Any]) -> int:
        """The number of the track of a thread, or of a process."""
        return self._tracks.setdefault((event["pid"], event.get("tid")), len(self._tracks) + 1)

    def _number(self, table: str, name: str) -> int:
        known = self._tables.setdefault(table, {})
        return known.setdefault(name, len(known) + 1)
