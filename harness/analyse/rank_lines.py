"""What is said of a rank: its call and with whom, or what it does outside MPI, and for how long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator.topology import ranges
from harness.analyse.rank_waits import is_collective, last_call, polls
from harness.measure.rank_notes import (
    ANY,
    BEGINNING,
    FINALIZED,
    NOT_NOTED,
    WORLD,
    CallNote,
    Communicator,
    RankNote,
    ThreadNote,
)
from harness.measure.rank_sight import ASLEEP, ENDED, SILENT, STOPPED
from harness.measure.rank_watch import RankState


def described(one: RankState) -> str:
    """What a rank does, and for how long it has made no progress."""
    note = one.note
    during = f"for {one.idle_s:.0f} s"
    if (over := _unseen(one) or _over(one)) is not None:
        return over
    waits = f"for {one.wait_s:.0f} s"
    stopped = ", stopped" if one.state == STOPPED else ""
    calls = [thread for thread in note.threads if thread.within and thread.call]
    if polls(one):
        return f"polls with MPI_{call_name(note)} {during}{stopped}"
    if calls:
        texts = [f"in {_call(thread)}" for thread in calls]
        return f"{' and '.join(texts)}, {waits}{stopped}"
    after = f", after MPI_{call_name(note)}" if call_name(note) else ""
    return f"not in MPI {during}{after}; {_outside(one)}"


def ranks_text(ranks: Sequence[int]) -> str:
    """Their numbers with the word for them, as in "ranks 0-2, 5"."""
    return f"rank{'s' if len(ranks) > 1 else ''} {ranges(ranks).replace(',', ', ')}"


def on(comm: Communicator | None) -> str:
    """The words for a communicator or window, as in "on MPI_COMM_WORLD"; "" without one."""
    if comm is None:
        return ""
    if comm.name == WORLD:
        return "on MPI_COMM_WORLD"
    facts = [f'"{comm.name}"'] if comm.name else []
    facts += [f"from MPI_{comm.origin}"] if comm.origin else []
    what = "window" if comm.origin.startswith("Win_") else "communicator"
    return f"on a {what} of {comm.ranks}" + (f" ({', '.join(facts)})" if facts else "")


def call_name(note: RankNote) -> str:
    """The name of a rank's last call without "MPI_"; "" without one."""
    call = last_call(note)
    return call.name if call else ""


def _unseen(one: RankState) -> str:
    """What is said of a rank that has ended or does not answer; "" for others."""
    if one.state == ENDED:
        return "ended without MPI_Finalize" if one.note.stage < FINALIZED else "ended"
    if one.state == SILENT:
        return f"does not answer for {one.idle_s:.0f} s"
    if one.state == STOPPED and one.note.communicators is None:
        return f"stopped for {one.idle_s:.0f} s"
    return ""


def _over(one: RankState) -> str | None:
    """What a rank does that is not in a call, nor without one for long; None for others."""
    if one.note.stage == FINALIZED:
        return "has left MPI_Finalize"
    if one.note.stage == NOT_NOTED:
        return "waits as MPI does, and notes nothing"
    if one.note.stage == BEGINNING:
        return f"in MPI_Init for {one.idle_s:.0f} s"
    if not one.idle_s:
        return f"at work, last with MPI_{call_name(one.note)}" if call_name(one.note) else "at work"
    return None


def _outside(one: RankState) -> str:
    if one.state == STOPPED:
        return "stopped"
    if one.state == ASLEEP:
        return f"asleep in {one.asleep_in}" if one.asleep_in else "asleep"
    return f"computing ({one.cpu_share:.0%} of a processor)".replace("%", " %")


def _call(thread: ThreadNote) -> str:
    call = thread.call
    assert call is not None
    if thread.pending:
        some = "; ".join(dict.fromkeys(f"MPI_{one.name}{_about(one)}" for one in thread.pending))
        return f"MPI_{call.name} for {call.items} requests, of which these are not complete: {some}"
    if call.name.startswith("Wait") and call.items:
        return f"MPI_{call.name} for {call.items} request{'s' if call.items > 1 else ''}"
    return f"MPI_{call.name}{_about(call)}"


def _about(call: CallNote) -> str:
    if is_collective(call) and call.source is not None:
        return f" with root {call.source} {on(call.comm)}".rstrip()
    peers = list(_peers(call))
    if not peers:
        return f" {on(call.comm)}".rstrip()
    size = _size(call)
    where = WORLD if call.comm and call.comm.name == WORLD else on(call.comm)
    tag = "any tag" if call.tag < 0 else f"tag {call.tag}"
    return f" {' and '.join(peers)}, {tag}, {where or 'a communicator'}{size}".replace(", on ", " on ")


def _peers(call: CallNote) -> Iterator[str]:
    for word, peer in (("to", call.to), ("from", call.source)):
        if peer is None:
            continue
        world = call.comm.world(peer) if call.comm else None
        different = f" (world rank {world})" if world is not None and world != peer else ""
        yield f"{word} any rank" if peer == ANY else f"{word} rank {peer}{different}"


def _size(call: CallNote) -> str:
    if call.to is None or not call.items:
        return ""
    if not call.item_bytes:
        return f", {call.items} items"
    size = call.items * call.item_bytes
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f", {size / unit:.3g} {name}"
    return f", {size} bytes"
