"""A rank in a critical section: ``section_rank.py FILE RANK LOCK REMEDY``, with the page in descriptor FILE.

It enters the section, stops itself there, and leaves; its status is 2 if it then still has a realtime class.
"""

import os
import signal
import sys

from workloads.locks import SectionLocks
from workloads.locks.lock_program import LOCKS
from workloads.options import Remedy


def main(file, rank, lock, remedy):
    locks = SectionLocks(int(file), int(rank), 3, 1, LOCKS[lock], 1 << 62, Remedy(remedy))
    locks.enter(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    locks.leave(0)
    return 0 if os.sched_getscheduler(0) == os.SCHED_OTHER else 2


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
