"""Frames: a message comes back as it was, and nothing else can be made of bytes, whatever they are."""

import math
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.wire.line_format import LineError
from coordinator.wire.protocol import AGENTS_VERSION, TO_AGENT, TO_DRIVER, Beat, Echo, SwitchReport, Trouble

NUMBER = st.integers(-(1 << 63), (1 << 63) - 1)
REAL = st.floats(allow_nan=False, allow_infinity=False)
BEATS = st.builds(Beat, NUMBER, NUMBER, NUMBER, REAL, *[NUMBER] * 4)
REPORTS = st.builds(SwitchReport, st.lists(st.tuples(NUMBER, NUMBER, NUMBER, NUMBER), max_size=5).map(tuple))
BEAT = TO_DRIVER.encode(Beat(1, 2, 3, 0.5, 4, 5))
HEAD = bytes([AGENTS_VERSION])


@given(BEATS | REPORTS | st.builds(Trouble, st.text(max_size=9).map(ascii), st.booleans()))
def test_a_message_comes_back_as_it_was(message):
    assert TO_DRIVER.decode(TO_DRIVER.encode(message)) == message


@given(st.builds(Echo, *[NUMBER] * 7))
def test_an_echo_takes_58_bytes(echo):
    assert len(TO_AGENT.encode(echo)) == 58
    assert TO_AGENT.decode(TO_AGENT.encode(echo)) == echo


@given(
    st.sampled_from([b"", b"B", b"S", b"E"]), st.sampled_from([b"", HEAD, b"\x07"]), st.binary(max_size=99)
)
def test_of_random_bytes_becomes_a_message_with_finite_numbers_or_an_error(name, version, rest):
    with suppress(LineError):
        match TO_DRIVER.decode(name + version + rest):
            case Beat(drift=drift):
                assert math.isfinite(drift) and len(rest) == 64
            case SwitchReport(switches):
                assert len(switches) * 32 == len(rest)
            case other:
                raise AssertionError(other)


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        (BEAT[:-1], "not as long as Beat: 65 bytes"),
        (BEAT + b"\0", "not as long as Beat"),
        (b"B" + HEAD, "not as long as Beat"),
        (b"B\x01" + BEAT[2:], "not a line"),
        (BEAT[:26] + struct.pack("<d", math.nan) + BEAT[34:], "not finite"),
        (BEAT[:26] + struct.pack("<d", -math.inf) + BEAT[34:], "not finite"),
        (b"S" + HEAD + bytes(31), "not as long as SwitchReport"),
        (b"S" + HEAD + bytes(32 * ((1 << 16) + 1)), "more than 65536 rows"),
        (TO_AGENT.encode(Echo(1, 2, 3)), "not a line"),
    ],
)
def test_what_is_no_frame_of_this_connection_is_refused(message, complaint):
    with pytest.raises(LineError, match=complaint):
        TO_DRIVER.decode(message)
