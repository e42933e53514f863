"""Doorbells without MPI: who is woken, and that nobody sleeps through a message."""

import ctypes
import mmap
import socket
import threading
import time

import pytest
from threads import ended, together

from workloads.doorbell import NetworkBell, NodeBell, node_bytes, reachable

SECOND_NS = 10**9


class Page:
    """Memory for the flags of two ranks; the lock stands in for a memory fence."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 2 * node_bytes(2))
        self.lock = threading.Lock()
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def fence(self):
        self.lock.acquire()
        self.lock.release()


def node_bells():
    page = Page()
    bells = [NodeBell(page.address, rank, 2, page.fence) for rank in range(2)]
    return page, bells


def network_bells():
    meeting = threading.Barrier(2)
    cards = [None, None]
    bells = [None, None]

    def make(rank):
        def exchange(card):
            cards[rank] = card
            meeting.wait()
            return list(cards)

        bells[rank] = NetworkBell(rank, 2, exchange)

    assert ended(together(lambda: make(0), lambda: make(1)))
    return cards, bells


@pytest.fixture(params=[node_bells, network_bells], ids=["node", "network"])
def bells(request):
    keep, make = request.param()
    yield make
    for bell in make:
        bell.close()
    del keep


def test_a_ring_wakes_the_sleeper(bells):
    sleeper, ringer = bells
    assert sleeper.arm([0, 0])
    threading.Timer(0.05, ringer.ring, (0,)).start()
    begin = time.monotonic()
    assert sleeper.sleep(5 * SECOND_NS)
    assert 0.03 < time.monotonic() - begin < 4
    sleeper.disarm()


def test_a_ring_between_arming_and_sleeping_is_not_lost(bells):
    sleeper, ringer = bells
    assert sleeper.arm([0, 0])
    ringer.ring(0)
    begin = time.monotonic()
    assert sleeper.sleep(5 * SECOND_NS)
    assert time.monotonic() - begin < 4


def test_a_sleep_without_a_ring_ends_by_its_time_out(bells):
    sleeper, _ = bells
    assert sleeper.arm([0, 0])
    begin = time.monotonic()
    assert not sleeper.sleep(20_000_000)
    assert time.monotonic() - begin >= 0.019


def test_a_ring_for_somebody_awake_costs_no_later_wake_up():
    page, (sleeper, ringer) = node_bells()
    ringer.ring(0)
    assert sleeper.arm([0, 1])
    assert not sleeper.sleep(10_000_000)
    del page


def test_an_announced_message_that_is_still_on_its_way_forbids_sleeping(bells):
    sleeper, ringer = bells
    ringer.ring(0)
    time.sleep(0.01)
    assert not sleeper.arm([0, 0]), "one message announced by rank 1, none received"
    assert sleeper.arm([0, 1])


def test_a_stranger_s_datagram_announces_nothing():
    cards, (sleeper, _) = network_bells()
    _, _, port, _ = cards[0]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        for datagram in (b"", b"x" * 28, b"y" * 200):
            stranger.sendto(datagram, ("127.0.0.1", port))
    time.sleep(0.01)
    assert sleeper.arm([0, 0])


def test_the_address_of_a_shared_subnet_is_preferred():
    mine = [("10.1.0.5", "255.255.0.0"), ("127.0.0.1", "255.0.0.0")]
    theirs = [("192.168.7.1", "255.255.255.0"), ("10.1.9.9", "255.255.0.0"), ("127.0.0.1", "255.0.0.0")]
    assert reachable(mine, theirs, same_host=False) == "10.1.9.9"
    assert reachable(mine, theirs[:1], same_host=False) == "192.168.7.1"
    assert reachable(mine, theirs, same_host=True) == "127.0.0.1"
