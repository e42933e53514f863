"""The tree of agents without agents: its shape, and packets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.wire.line_format import LineError
from coordinator.wire.tree import PACKET, leaders, pack, pass_on, unpack


@pytest.mark.parametrize(
    ("count", "fan_out", "levels"),
    [
        (1, 32, 1),
        (32, 32, 1),
        (33, 32, 2),
        (128, 32, 2),
        (1024, 32, 2),
        (1056, 32, 2),
        (4096, 32, 3),
        (8, 2, 3),
    ],
)
def test_everybody_has_a_place_and_nobody_leads_more_than_the_fan_out(count, fan_out, levels):
    led = leaders(range(count), fan_out, fan_out)
    above = {node: leader for leader, nodes in led.items() for node in nodes}
    assert len(above) == sum(map(len, led.values())), "nobody has two places"
    at_the_top = [node for node in range(count) if node not in above]
    assert len(at_the_top) <= fan_out and max(map(len, led.values()), default=0) <= fan_out
    assert bool(led) == (count > fan_out)

    def depth(node):
        return 1 + (depth(above[node]) if node in above else 0)

    assert max(map(depth, range(count))) == levels


def test_those_who_come_when_there_is_little_room_are_led_by_few():
    assert leaders(range(31), 32, 28) == {0: list(range(1, 31))}
    assert leaders(range(28), 32, 28) == {}


def passed_on(parts, through):
    sent = []
    pass_on(parts, through, lambda neighbour, message: sent.append((neighbour, message)))
    return sent


def test_messages_for_nodes_behind_one_neighbour_travel_together_others_alone_and_strays_not_at_all():
    parts = [(0, b"a"), (2, b"b"), (3, b"c"), (1, b"d"), (4, b"e"), (9, b"f"), (5, b"g")]
    assert passed_on(parts, {0: 0, 1: 1, 2: 0, 3: 0, 4: 1, 5: 0}) == [
        (0, b"a"),
        (1, b"d"),
        (0, pack([(2, b"b"), (3, b"c")])),
        (1, pack([(4, b"e")])),
        (0, pack([(5, b"g")])),
    ]


def test_a_packet_is_never_too_long():
    sent = passed_on(((number, bytes(900_000)) for number in range(10)), dict.fromkeys(range(10), 77))
    assert [number for _, frame in sent for number, _ in unpack(frame)] == list(range(10))
    assert max(len(frame) for _, frame in sent) < 1 << 22


@given(st.binary(max_size=60))
def test_bytes_are_parts_or_refused(rest):
    try:
        parts = list(unpack(PACKET + rest))
    except LineError as error:
        assert "shorter than its parts" in str(error)
    else:
        assert pack(parts) == PACKET + rest
