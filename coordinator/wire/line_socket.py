"""Lines over a stream socket: the transport under the messages. Never blocks."""

from __future__ import annotations

import socket

LONGEST_BYTES = 1 << 22
"""Every message is much shorter; a longer line comes from a broken or hostile peer."""


class Channel:
    """Whole lines both ways, kept while a peer is slow; once ``closed``, lines sent before still arrive."""

    def __init__(self, peer: socket.socket) -> None:
        peer.setblocking(False)
        self._socket = peer
        self._in = bytearray()
        self._out = bytearray()
        self.closed = False

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def unsent(self) -> bool:
        """Whether output waits for the peer; call ``flush`` when the socket is writable."""
        return bool(self._out) and not self.closed

    def send(self, line: bytes) -> None:
        self._out += line
        self.flush()

    def flush(self) -> None:
        try:
            while self._out:
                del self._out[: self._socket.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self._out.clear()
            self.closed = True

    def receive(self) -> list[bytes]:
        """The whole lines that have arrived, without their newlines."""
        try:
            while not self.closed:
                data = self._socket.recv(1 << 16)
                self._in += data
                if not data or len(self._in) > LONGEST_BYTES:
                    self.closed = True
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True
        *lines, rest = bytes(self._in).split(b"\n")
        self._in = bytearray(rest)
        return lines

    def close(self) -> None:
        self.closed = True
        self._socket.close()
