"""Whatever tables come, and whenever the switcher is asked: each rank is as the table in force wants it."""

import random

from slots_of_jobs import Holder, slot_of

from coordinator.node.switcher import FREE, HOLD, RUN, Switcher
from coordinator.wire.protocol import Table

DEEDS = {"free": FREE, "run": RUN, "hold": HOLD}
RANKS = [(job, rank) for job in range(3) for rank in range(2)]


def any_table(draw, from_ns):
    """Slots for some ranks of some jobs on two processors; some ranks have no place."""
    lengths_ns = [draw.choice([10, 25, 40]) for _ in range(draw.randint(1, 3))]
    lengths_ns[-1] = draw.choice([lengths_ns[-1], None])
    runs = [tuple(tuple(j for j in range(3) if draw.random() < 0.5) for _ in range(2)) for _ in lengths_ns]
    only = [tuple(draw.sample(RANKS, draw.randint(0, 3))) for _ in lengths_ns]
    places = tuple((*one, draw.randint(0, 1)) for one in RANKS if draw.random() < 0.8)
    start_ns = from_ns - draw.randint(0, 60)
    only = tuple(only) if draw.random() < 0.5 else ()
    return Table(from_ns, start_ns, draw.random() < 0.6, tuple(lengths_ns), tuple(runs), places, only)


def wanted(table, slot, one, unplaced):
    """The state of a rank in a slot, by what a table says of it."""
    places = {(job, rank): place for job, rank, place in table.placements}
    if one not in places:
        return unplaced
    only = table.allowed_ranks[slot] if table.allowed_ranks else ()
    named = any(job == one[0] for job, _ in only)
    return RUN if one[0] in table.runs[slot][places[one]] and (one in only or not named) else HOLD


def check_order(said, table):
    """On each processor those that leave do so before others come."""
    places = {(job, rank): place for job, rank, place in table.placements}
    for processor in (*range(2), None):
        deeds = [DEEDS[what] for what, one in said if places.get(one) == processor]
        assert deeds == sorted(deeds, reverse=True)


def test_each_rank_is_as_the_table_in_force_wants_it_and_the_next_boundary_is_known():
    draw, changes = random.Random(8), 0
    for _ in range(60):
        holder, now_ns = Holder(), 0
        switcher = Switcher(holder, lambda: now_ns)  # noqa: B023 - it is the time of this round
        states, unplaced = {}, {}
        tables = [any_table(draw, from_ns) for from_ns in (0, draw.randint(1, 150))]
        for table in tables:
            switcher.publish(table)
        assert switcher.due_ns() == 0
        for _ in range(20):
            if missing := [one for one in RANKS if one not in states and draw.random() < 0.3]:
                one = missing[0]
                unplaced[one] = draw.choice([FREE, HOLD])
                switcher.adopt(*one, one, unplaced[one])
                states[one] = FREE
            elif states and draw.random() < 0.1:
                one = draw.choice([*states])
                switcher.drop(*one)
                del states[one]
            states |= {one: DEEDS[what] for what, one in holder.said if one in states}
            holder.said.clear()
            switching = switcher.switch(now_ns)
            *_, table = (one for one in tables if one.from_ns <= now_ns)
            slot, end_ns = slot_of(table.lengths_ns, table.cyclic, now_ns - table.start_ns)
            check_order(holder.said, table)
            changes += len(holder.said)
            assert (switching is None) == (not holder.said)
            states |= {one: DEEDS[what] for what, one in holder.said}
            holder.said.clear()
            assert states == {one: wanted(table, slot, one, unplaced[one]) for one in states}
            assert [one for one in RANKS if switcher.holds(*one)] == [
                one for one in RANKS if states.get(one) == HOLD
            ]
            dues = [one.from_ns for one in tables if one.from_ns > now_ns]
            dues += [] if end_ns is None else [table.start_ns + end_ns]
            assert switcher.due_ns() == min(dues, default=None)
            now_ns += draw.randint(0, 30)
        held = {one for one in states if states[one] == HOLD}
        switcher.release()
        assert {one for what, one in holder.said if what == "free"} >= held
    assert changes > 300
