"""Frames: a message comes back as it was, and nothing else can be made of bytes, whatever they are."""

from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import (
    AGENTS_VERSION,
    FROM_BYTES,
    MOST_SWITCHES,
    TO_AGENT,
    TO_DRIVER,
    Beat,
    Echo,
    Failure,
    SwitchReport,
    Table,
)

NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
REPORTS = st.builds(SwitchReport, st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER), max_size=5).map(tuple))
BEAT = TO_DRIVER.encode(Beat(1, 2, 3, 4, 5, 6))
HEAD = bytes([AGENTS_VERSION])
TABLE = Table(2, 3, True, (10, None), (((0, 1), ()), ((2,), (3,))), ((0, 0, 0), (1, 3, 1)), (((0, 0),), ()))


@given(
    st.builds(Beat, *[NUMBER] * 6)
    | REPORTS
    | st.builds(Failure, st.text(max_size=9).map(ascii), st.booleans())
)
def test_a_message_comes_back_as_it_was(message):
    assert TO_DRIVER.decode(TO_DRIVER.encode(message)) == message


@given(st.builds(Echo, *[NUMBER] * 3))
def test_an_echo_takes_30_bytes(echo):
    assert len(TO_AGENT.encode(echo)) == 30
    assert TO_AGENT.decode(TO_AGENT.encode(echo)) == echo


@given(NUMBER)
def test_tables_differ_in_their_first_bytes_only_if_they_are_for_other_times(from_ns):
    other = TO_AGENT.encode(replace(TABLE, from_ns=from_ns))
    assert other[FROM_BYTES:] == TO_AGENT.encode(TABLE)[FROM_BYTES:]


@given(
    st.sampled_from([b"", b"B", b"S", b"E"]), st.sampled_from([b"", HEAD, b"\x07"]), st.binary(max_size=99)
)
def test_of_random_bytes_becomes_a_message_or_an_error(name, version, rest):
    with suppress(LineError):
        match TO_DRIVER.decode(name + version + rest):
            case Beat():
                assert len(rest) == 52
            case SwitchReport(switches):
                assert len(switches) * 32 == len(rest) - 4
            case other:
                raise AssertionError(other)


@given(st.lists(st.tuples(st.integers(0, 200), st.integers(0, 255)), max_size=4), st.integers(0, 200))
def test_of_a_damaged_table_becomes_one_that_can_be_carried_out_or_an_error(damage, end):
    damaged = bytearray(TO_AGENT.encode(TABLE)[: 50 + end])
    for at, value in damage:
        damaged[min(2 + at, len(damaged) - 1)] = value
    with suppress(LineError):
        table = TO_AGENT.decode(bytes(damaged))
        assert not table.flaw() and TO_AGENT.decode(TO_AGENT.encode(table)) == table


def framed(name, longs, rest=b""):
    return (
        name
        + HEAD
        + len(longs).to_bytes(4, "little")
        + b"".join(n.to_bytes(8, "little") for n in longs)
        + rest
    )


@pytest.mark.parametrize(
    "message, complaint",
    [
        (BEAT[:-1], "not a Beat"),
        (BEAT + b"\0", "not a Beat"),
        (BEAT + bytes(4), "not as long: 6 and 1"),
        (b"B" + HEAD, "not a Beat"),
        (b"B" + HEAD + b"\xff\xff\xff\xff", "not a Beat"),
        (framed(b"B", range(5)), "not as long: 5 and 0"),
        (b"B\x01" + BEAT[2:], "not a line"),
        (framed(b"S", range(5)), "not a SwitchReport"),
        (framed(b"S", range(4 * MOST_SWITCHES + 4)), "more switches than"),
        (TO_AGENT.encode(Echo(1, 2, 3)), "not a line"),
    ],
)
def test_what_is_no_frame_of_this_connection_is_refused(message, complaint):
    with pytest.raises(LineError, match=complaint):
        TO_DRIVER.decode(message)
