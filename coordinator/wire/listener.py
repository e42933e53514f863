"""A listening TCP socket that can be shut.

Anybody on the network can connect to a port, and a connection costs a descriptor until its peer
fails to show a key. So the port is open only while a peer with a key may come. While it is shut,
the kernel drops all packets, and this process does not notice them.
"""

from __future__ import annotations

import ctypes
import socket
import struct

BACKLOG = 1024
"""Connections that may wait to be accepted."""

LOOPBACK = "127.0.0.1"

_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_DROP_ALL = struct.pack("=HBBI", 0x06, 0, 0, 0)
"""A program of the classic packet filter: return 0, the number of bytes to let through."""


class TcpListener:
    """Listens at the address of one of our interfaces; shut at first. Port 0 means any."""

    def __init__(self, address: str, port: str | int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((address, int(port)))
            self.shut()
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise

    @property
    def endpoint(self) -> str:
        address, port = self._socket.getsockname()
        return f"tcp://{address}:{port}"

    def descriptor(self) -> int:
        """A duplicate of its descriptor, for code that accepts connections and closes it."""
        return socket.dup(self._socket.fileno())

    def open(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def shut(self) -> None:
        """Let no more connections in; existing ones stay."""
        text = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
        program = struct.pack("@HP", 1, ctypes.addressof(text))
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def close(self) -> None:
        """Close it; the socket stays open until duplicates of its descriptor are closed, too."""
        self._socket.close()


def address_towards(host: str) -> str:
    """The address of our interface towards ``host``; LOOPBACK if ``host`` is this host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        ours, its = probe.getsockname()[0], probe.getpeername()[0]
        return LOOPBACK if ours == its or its.startswith("127.") else str(ours)
