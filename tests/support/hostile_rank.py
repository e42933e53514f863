"""A process of a run that means harm: python hostile_rank.py SOCKET JOB SEED COUNT.

It connects COUNT times to the agent, speaks out of turn or nonsense, and waits to be cut off; it prints how
often it was not.
"""

import json
import random
import socket
import sys
from contextlib import suppress

HELLO = {"type": "hello", "version": 1, "job": 0, "rank": 0}
READY = {"type": "ready"}
RECORD = {"type": "record", "record": {"job": 0, "rank": 0, "start_ns": 1, "finish_ns": 2}}
BECOMING = {"type": "becoming", "processor": 0, "start_ns": 1}


def lines(*messages):
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def conversations(random_):
    """Beginnings of conversations, of which every one is to be cut off."""
    number = random_.choice([-1, 1, 7, 2**31, 2**63, 10**30, None, "0", 0.5, True, [], {}])
    text = lines(HELLO)
    yield from (
        lines(READY),
        lines(RECORD),
        lines(BECOMING),
        lines({**HELLO, "job": number}),
        lines({**HELLO, "rank": number if number != 7 else "7"}) if number not in (1, 7) else lines([]),
        lines({**HELLO, "version": 2}),
        lines(HELLO, HELLO),
        lines(HELLO, RECORD),
        lines(HELLO, BECOMING),
        lines(HELLO, {"type": "becoming", "processor": number, "start_ns": number}),
        lines({**HELLO, random_.choice(["pid", "uid", "\ud800"]): 1}),
        lines({"type": random_.choice(["leave", "start", "resize", "end", "table", None, 3])}),
        random_.randbytes(random_.randrange(1, 200)) + b"\n",
        text[: random_.randrange(1, len(text) - 2)] + b"\n",
        b"[" * random_.randrange(1, 5000) + b"\n",
        b"x" * ((1 << 22) + 1) if random_.random() < 0.02 else b"\xff\xfe\n",
    )


def cut_off(path, said):
    """Whether the agent hangs up on who says this, without another word."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10)
        line.connect(path)
        try:
            line.sendall(said)
            return line.recv(1) == b""
        except (BrokenPipeError, ConnectionResetError):
            return True
        except TimeoutError:
            return False


if __name__ == "__main__":
    place, job, seed, count = sys.argv[1:]
    source = random.Random(int(seed))
    heard = 0
    done = 0
    while done < int(count):
        for conversation in conversations(source):
            heard += not cut_off(place, conversation)
            done += 1
    with suppress(OSError):
        print(heard)
