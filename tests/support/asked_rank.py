"""The other end of the line by which ``lockstep exec`` asks a rank on another host."""

import socket
import struct

from harness.measure import rank_notes
from harness.measure.rank_notes import RUNNING
from harness.measure.remote_rank import COUNTERS, HEADER

STAT = b"7 (a b) S 1 7 7 0 -1 0 0 0 0 0 30 12 0 0 20 0 1 0 4711 0 0"


class FakeRank:
    """The other end of the line of a rank."""

    def __init__(self, line):
        self.line = line
        line.settimeout(20)
        self.page = rank_notes._Page(
            magic=b"LOCKSTEP", version=1, pid=7, job=5, ranks=4, stage=RUNNING, calls=1
        )
        self.page.places[0].thread = 7
        self.page.communicators[0].used = 2
        self.page.communicators[0].id = 9

    def question(self):
        return self.line.recv(1)

    def answer(self, question, stat=STAT):
        page = bytes(self.page)[: rank_notes.HEAD_BYTES if question == COUNTERS else None]
        names = b"" if question == COUNTERS else b"Recv".ljust(rank_notes.NAME_BYTES, b"\0")
        header = HEADER.pack(len(page), len(names), len(stat), 0, 1 << 9)
        self.line.sendall(header + page + names + stat)


def reset(line):
    """Close a line as a network does that cuts it: by RST."""
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()
