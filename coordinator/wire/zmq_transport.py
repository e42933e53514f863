"""The line between driver and agents: ZeroMQ with CURVE, so that only key holders are heard.

Every run has its own keys: a pair for the driver and one for each node. The driver admits only the nodes'
public keys, and identifies a node by its key, not by what a message claims. An agent identifies the driver by
its public key. A peer without a key gets no answer. Neither side ever blocks.

Anybody on the network can connect to a port, and a connection costs a descriptor until its peer fails to show
a key. So the port is open only while a peer with a key may come. While it is shut, the kernel drops all
packets, and this process does not notice them.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import socket
import struct
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import zmq
from zmq.utils import z85

from coordinator.host import processes
from coordinator.host.priority import levels
from workloads.validation import InputError

BACKLOG = 1024  # connections that may wait to be accepted

LOOPBACK = "127.0.0.1"

_SO_ATTACH_FILTER = 26
_SO_DETACH_FILTER = 27
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
        with suppress(FileNotFoundError):  # none was permitted
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)

    def shut(self) -> None:
        """Let no more connections in, where the host permits filters; existing ones stay."""
        text = ctypes.create_string_buffer(_DROP_ALL, len(_DROP_ALL))
        program = struct.pack("@HP", 1, ctypes.addressof(text))
        with suppress(PermissionError):
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)

    def close(self) -> None:
        """Close it; the socket stays open until duplicates of its descriptor are closed, too."""
        self._socket.close()


def address_towards(host: str) -> str:
    """The address of our interface towards ``host``; LOOPBACK if ``host`` is this host."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing
        ours = probe.getsockname()[0]
        its = probe.getpeername()[0]
        return LOOPBACK if ours == its or its.startswith("127.") else str(ours)


LinkError = zmq.ZMQError  # a connection cannot be made: the address is in use, or no descriptor is left

TCP = "tcp://"

LONGEST_BYTES = 1 << 22  # every message is much shorter; a peer that sends a longer one is disconnected
WAITING = 1 << 14  # messages kept for a peer that does not take them; more are dropped

_POLLIN = int(zmq.POLLIN)
MORE = int(zmq.NOBLOCK | zmq.SNDMORE)
"""Flags of a frame that is not the last one of its message."""

HANDSHAKE_S = 2.0  # how long a peer may take to show its key; until then it costs a descriptor
HANG_UP_S = 1.0  # how long hanging up may take after ``linger_s``


@dataclass(frozen=True)
class Keys:
    """A CURVE key pair, as text."""

    public: str
    secret: str

    @classmethod
    def make(cls) -> Keys:
        public, secret = zmq.curve_keypair()
        return cls(public.decode(), secret.decode())

    def of(self, number: int) -> Keys:
        """The keys of a node that only holders of these secret keys can work out; 0: these."""
        if not number:
            return self
        digest = hashlib.blake2b(number.to_bytes(8, "little"), digest_size=32, key=self.secret.encode())
        secret = z85.encode(digest.digest())
        return Keys(zmq.curve_public(secret).decode(), secret.decode())


class Hub:
    """The driver's end; TCP ports are shut until ``listen`` is called.

    It listens at ``endpoints``, in ZeroMQ's notation; a TCP port of 0 means any. ``admitted`` has the public
    key and number of each node.
    """

    def __init__(self, endpoints: str | Sequence[str], keys: Keys, admitted: Mapping[str, int]) -> None:
        self._context = _context()
        self._admitted = {z85.decode(key.encode()): node for key, node in admitted.items()}
        # ZeroMQ asks this socket about every peer before it accepts a message from it.
        self._gate = self._context.socket(zmq.REP)
        self._gate.bind("inproc://zeromq.zap.01")
        self._socket = self._context.socket(zmq.ROUTER)
        _prepare(self._socket, keys)
        self._socket.curve_server = True
        self._socket.zap_domain = b"lockstep"
        self._socket.router_handover = True
        self._socket.handshake_ivl = round(HANDSHAKE_S * 1e3)
        self._listeners: list[TcpListener] = []
        self._listening = False
        endpoints = [endpoints] if isinstance(endpoints, str) else endpoints
        self.endpoints = tuple(map(self._bind, endpoints))
        self._routes: dict[int, bytes] = {}
        self.refused = 0

    def _bind(self, endpoint: str) -> str:
        """Listen at ``endpoint``; returns it with its port."""
        if not endpoint.startswith(TCP):
            self._socket.bind(endpoint)
            return endpoint
        listener = TcpListener(*endpoint.removeprefix(TCP).rsplit(":", 1))
        self._listeners.append(listener)
        self._socket.use_fd = listener.descriptor()
        self._socket.bind(listener.endpoint)
        self._socket.use_fd = -1
        return listener.endpoint

    def endpoint_for(self, host: str) -> str:
        """The endpoint by which ``host`` reaches us over TCP, if ``endpoints_for`` included ``host``."""
        (prefix,) = endpoints_for([host])
        matching = (endpoint for endpoint in self.endpoints if endpoint.startswith(prefix.rstrip("0")))
        return next(matching, self.endpoints[0])

    def listen(self, on: bool) -> None:
        """Let nodes connect, or let none connect; existing connections stay."""
        if self._listeners and on is not self._listening:
            self._listening = on
            processes.raise_descriptor_limit(processes.RESERVED_DESCRIPTORS if on else 0)
            for listener in self._listeners:
                listener.open() if on else listener.shut()

    def filenos(self) -> tuple[int, int]:
        """Descriptors that turn readable when ``receive`` may have something to do."""
        return self._socket.fileno(), self._gate.fileno()

    def receive(self) -> list[tuple[int, bytes]]:
        """The messages of nodes, by number; call it until there is none: descriptors are edge-triggered."""
        self._admit()
        arrived: list[tuple[int, bytes]] = []
        while _readable(self._socket):
            try:
                route = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:  # its connection has just ended
                break
            frame = self._socket.recv(copy=False)  # all of a message arrives at once
            if frame.more:
                self.refused += 1
                while frame.more:
                    frame = self._socket.recv(copy=False)
                continue
            node = int(frame.get("User-Id"))
            self._routes[node] = route
            arrived.append((node, frame.bytes))
        return arrived

    def send(self, node: int, line: bytes) -> None:
        """Send a message to a node; drop it if the node has never sent one."""
        route = self._routes.get(node)
        if route is not None:
            with suppress(zmq.Again):
                self._socket.send(route, MORE)
                self._socket.send(line, zmq.NOBLOCK)

    def close(self, linger_s: float = 1.0) -> None:
        """Wait at most ``linger_s`` until all messages are sent, and hang up."""
        self._socket.close(round(linger_s * 1e3))
        self._gate.close(0)
        for listener in self._listeners:
            listener.close()
        _terminate(self._context, linger_s)

    def _admit(self) -> None:
        """Answer ZeroMQ's questions about peers (ZAP, RFC 27)."""
        while _readable(self._gate):
            version, request, _, _, _, mechanism, *credentials = self._gate.recv_multipart(zmq.NOBLOCK)
            node = self._admitted.get(credentials[0]) if mechanism == b"CURVE" and credentials else None
            if node is None:
                self.refused += 1
            status, text = (b"400", b"no admitted key") if node is None else (b"200", b"OK")
            user = b"" if node is None else str(node).encode()
            self._gate.send_multipart([version, request, status, text, user, b""])


class Line:
    """An agent's end; the driver listens at ``endpoint``, and ``driver_key`` is its public key."""

    def __init__(self, endpoint: str, driver_key: str, keys: Keys) -> None:
        self._context = _context()
        self._socket = self._context.socket(zmq.DEALER)
        _prepare(self._socket, keys)
        self._socket.curve_serverkey = driver_key.encode()
        self._socket.connect(endpoint)

    def fileno(self) -> int:
        """A descriptor that turns readable when ``receive`` may have something to do."""
        return int(self._socket.fileno())

    def receive(self) -> list[bytes]:
        """The messages that have arrived; see ``Hub.receive`` for when to call it."""
        arrived: list[bytes] = []
        with suppress(zmq.Again):  # its connection has just ended
            while _readable(self._socket):
                arrived.append(self._socket.recv(zmq.NOBLOCK))
        return arrived

    def send(self, line: bytes) -> None:
        """Send a message to the driver, or keep it until the driver can be reached."""
        with suppress(zmq.Again):
            self._socket.send(line, zmq.NOBLOCK)

    def close(self, linger_s: float = 1.0) -> None:
        """Wait at most ``linger_s`` until all messages are sent, and hang up."""
        self._socket.close(round(linger_s * 1e3))
        _terminate(self._context, linger_s)


def endpoints_for(hosts: Iterable[str]) -> tuple[str, ...]:
    """Where to listen so that these hosts can connect: any port of our interfaces towards them."""
    endpoints = []
    for host in hosts:
        try:
            endpoints.append(f"{TCP}{address_towards(host)}:0")
        except OSError as error:
            raise InputError(
                "hosts", host, f"cannot be reached: {error}", "name hosts as ssh knows them"
            ) from error
    return tuple(dict.fromkeys(endpoints))


def _context() -> zmq.Context[zmq.Socket[bytes]]:
    context = zmq.Context()
    granted = levels()
    if granted and os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_FIFO:
        # Otherwise ZeroMQ's thread would wait for a processor behind spinning ranks.
        context.set(zmq.THREAD_SCHED_POLICY, os.SCHED_FIFO)
        context.set(zmq.THREAD_PRIORITY, granted.transport)
    return context


def _terminate(context: zmq.Context[zmq.Socket[bytes]], linger_s: float) -> None:
    """Terminate the context, or abandon it: after a peer was killed, it may take for ever (issue 2733)."""
    thread = threading.Thread(target=context.term, daemon=True)
    thread.start()
    thread.join(linger_s + HANG_UP_S)


def _prepare(end: zmq.Socket[bytes], keys: Keys) -> None:
    end.curve_publickey = keys.public.encode()
    end.curve_secretkey = keys.secret.encode()
    end.maxmsgsize = LONGEST_BYTES
    end.sndhwm = end.rcvhwm = WAITING
    end.linger = 0  # if an error leaves it open, its process must end although its peer is away
    end.reconnect_ivl = 50
    end.reconnect_ivl_max = 500


def _readable(end: zmq.Socket[bytes]) -> bool:
    return bool(end.get(zmq.EVENTS) & _POLLIN)  # type: ignore[operator]
