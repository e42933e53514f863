"""A rank that speaks the protocol and computes, without MPI: python fake_rank.py SOCKET JOB RANK."""

import json
import os
import socket
import sys
import time


def main(path, job, rank):
    """Announce, wait for the start, compute a little, hand in a record, wait for the end."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    answers = line.makefile("r")

    def tell(**message):
        line.sendall(json.dumps(message).encode() + b"\n")

    tell(type="hello", version=1, job=int(job), rank=int(rank))
    tell(type="ready")
    try:
        if not answers.readline():
            return 1
    except ConnectionResetError:
        return 1
    start_ns = time.monotonic_ns()
    end_ns = time.thread_time_ns() + 30_000_000
    while time.thread_time_ns() < end_ns:
        pass
    for peers in json.loads(os.environ.get("PEERS", "[]")):
        tell(type="traffic", peers=peers)
    times = {"start_ns": start_ns, "finish_ns": time.monotonic_ns()}
    here = {"host": socket.gethostname(), "pid": os.getpid(), "processor": 0}
    tell(type="record", record={"job": int(job), "rank": int(rank), "processes": 2, **here, **times})
    return 0 if "leave" in answers.readline() else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
