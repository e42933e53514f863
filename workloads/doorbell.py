"""Doorbells: a process sleeps in the kernel until a message for it may have arrived.

MPI has no blocking wait that gives the processor away, so a ring follows each message. A sleeper raises its
flag, lets it become visible (a memory fence), looks once more, and only then sleeps; a sender sends, fences,
and rings if it sees the flag. So no wake-up is lost. The last look compares the number of messages sent with
the number received: MPI's test may miss a message that waits behind an incomplete one.

Inside a node a ring is a futex wake on a shared page; between nodes it is a datagram. The wait loop arms a
bell with the number of messages taken from each rank so far, and should not sleep if ``arm`` returns false.
It looks again, sleeps until the bell rings, false if the time runs out first, and disarms the bell.
"""

import contextlib
import ctypes
import errno
import platform
import secrets
import select
import socket
import struct
from collections.abc import Callable, Sequence

CACHE_LINE_BYTES = 64
WORD_BYTES = 8

_SYS_FUTEX = {"x86_64": 202, "aarch64": 98, "ppc64le": 221, "s390x": 238, "riscv64": 98}
_FUTEX_WAIT = 0
_FUTEX_WAKE = 1


class Futex:
    """A word of shared memory on which processes of one node can sleep and be woken."""

    def __init__(self, address: int) -> None:
        if platform.machine() not in _SYS_FUTEX:
            raise OSError(errno.ENOSYS, f"no futex call number known for {platform.machine()}")
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._call.argtypes = [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_int] * 2, ctypes.c_void_p]
        self._number = _SYS_FUTEX[platform.machine()]
        self._address = address

    def wait(self, timeout_ns: int) -> bool:
        """Sleep while the word is 1; False if the time ran out."""
        timeout = (ctypes.c_long * 2)(timeout_ns // 10**9, timeout_ns % 10**9)
        failed = self._call(self._number, self._address, _FUTEX_WAIT, 1, timeout)
        return not failed or ctypes.get_errno() != errno.ETIMEDOUT

    def wake(self) -> None:
        self._call(self._number, self._address, _FUTEX_WAKE, 1, None)


def node_bytes(ranks: int) -> int:
    """Bytes of shared memory that each of ``ranks`` needs for a NodeBell: its own cache lines."""
    lines = -(-ranks * WORD_BYTES // CACHE_LINE_BYTES)
    return (1 + lines) * CACHE_LINE_BYTES


class NodeBell:
    """The bell for jobs whose ranks all share a node: for each rank a flag, which is a futex, and counts.

    The counts follow the flag: how many messages the rank has sent to each rank. No rank rings before all
    bells are made. At ``address`` begins the memory shared by the ranks, ``node_bytes`` for each; ``fence``
    makes earlier stores visible to all ranks before later loads.
    """

    def __init__(self, address: int, rank: int, ranks: int, fence: Callable[[], None]) -> None:
        size = node_bytes(ranks)
        shared = memoryview((ctypes.c_char * (ranks * size)).from_address(address)).cast("B")
        self._flags = shared.cast("i")
        self._counts = shared.cast("q")
        self._stride = size // self._flags.itemsize
        self._mine = rank * self._stride
        first = CACHE_LINE_BYTES // WORD_BYTES
        self._told = [other * size // WORD_BYTES + first + rank for other in range(ranks)]
        self._sent = rank * size // WORD_BYTES + first
        self._fence = fence
        self._futexes = [Futex(address + other * size) for other in range(ranks)]
        self._own = self._futexes[rank]
        for place in range(ranks):
            self._counts[self._sent + place] = 0

    def arm(self, received: Sequence[int]) -> bool:
        """Raise the flag and fence; False while a message that was sent is still on its way."""
        self._flags[self._mine] = 1
        self._fence()
        counts = self._counts
        return all(counts[place] <= got for place, got in zip(self._told, received, strict=True))

    def sleep(self, timeout_ns: int) -> bool:
        """Sleep unless a ring has already lowered the flag."""
        return self._own.wait(timeout_ns)

    def disarm(self) -> None:
        self._flags[self._mine] = 0

    def ring(self, rank: int) -> None:
        """Count, fence, and wake ``rank`` if its flag is up: no system call if it is not."""
        self._counts[self._sent + rank] += 1
        self._fence()
        place = rank * self._stride
        if self._flags[place]:
            self._flags[place] = 0
            self._futexes[rank].wake()

    def close(self) -> None:
        """Release the shared page, so that MPI can free its window."""
        self._flags.release()
        self._counts.release()


class NetworkBell:
    """The bell for jobs that span nodes: each rank sleeps on its own datagram socket.

    A datagram may overtake the message that it announces. It therefore carries the number of
    messages sent so far, and a rank that has received fewer does not sleep: the message is
    about to arrive. A lost datagram costs one time-out of the sleeper. ``exchange`` gathers one value from
    every rank, in rank order (``comm.allgather``).
    """

    _FORM = struct.Struct("!16sIQ")

    def __init__(self, rank: int, ranks: int, exchange: Callable[[object], list[object]]) -> None:
        self._rank = rank
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind(("", 0))
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        port = self._socket.getsockname()[1]
        card = (socket.gethostname(), own_addresses(), port, secrets.token_bytes(16))
        cards: list[tuple[str, list[tuple[str, str]], int, bytes]] = exchange(card)  # type: ignore[assignment]
        self._token = cards[0][3]
        self._peers = [
            (reachable(card[1], theirs[1], same_host=theirs[0] == card[0]), theirs[2]) for theirs in cards
        ]
        self._sent = [0] * ranks
        self._announced = [0] * ranks

    def arm(self, received: Sequence[int]) -> bool:
        """Read the datagrams that have arrived; False while an announced message is on its way."""
        self._drain()
        return all(announced <= got for announced, got in zip(self._announced, received, strict=True))

    def sleep(self, timeout_ns: int) -> bool:
        return bool(self._poll.poll(timeout_ns / 1e6))

    def disarm(self) -> None:
        """Nothing to do: senders on other nodes cannot see whether this rank sleeps."""

    def ring(self, rank: int) -> None:
        """Tell ``rank`` how many messages it should have from this rank."""
        self._sent[rank] += 1
        datagram = self._FORM.pack(self._token, self._rank, self._sent[rank])
        # One that cannot be sent is as good as lost: the sleeper's time-out covers it.
        with contextlib.suppress(BlockingIOError, ConnectionRefusedError):
            self._socket.sendto(datagram, self._peers[rank])

    def close(self) -> None:
        self._socket.close()

    def _drain(self) -> None:
        while True:
            try:
                datagram = self._socket.recv(64)
            except (BlockingIOError, ConnectionRefusedError):
                return
            if len(datagram) != self._FORM.size:
                continue
            token, rank, count = self._FORM.unpack(datagram)
            if secrets.compare_digest(token, self._token) and rank < len(self._announced):
                self._announced[rank] = max(self._announced[rank], count)


Doorbell = NodeBell | NetworkBell


def own_addresses() -> list[tuple[str, str]]:
    """IPv4 addresses of this host's interfaces that are up, with their masks, loopback last."""
    import psutil  # noqa: PLC0415 - few ranks need it, and all would wait for it

    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    addresses = [
        (entry.address, entry.netmask or "255.255.255.255")
        for name, entries in psutil.net_if_addrs().items()
        for entry in entries
        if entry.family == socket.AF_INET and name in up
    ]
    return sorted(addresses, key=lambda pair: pair[0].startswith("127."))


def reachable(own: list[tuple[str, str]], theirs: list[tuple[str, str]], *, same_host: bool) -> str:
    """The address at which this host best reaches another: loopback, a shared subnet, the first."""
    if same_host or not theirs:
        return "127.0.0.1"

    def network(address: str, mask: str) -> int:
        return int.from_bytes(socket.inet_aton(address)) & int.from_bytes(socket.inet_aton(mask))

    for address, _ in theirs:
        for mine, mask in own:
            if not address.startswith("127.") and network(address, mask) == network(mine, mask):
                return address
    return theirs[0][0]
