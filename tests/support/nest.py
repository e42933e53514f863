"""Start a command so that nothing of it gets away: its orphans become children of this process.

``python nest.py COMMAND...`` writes the pid of the command, then its status once it has ended, a line
each, and ends itself when no descendant is left.
"""

import ctypes
import os
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(argv):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # A group of its own, as of a job of a shell.
    started = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0)
    print(started.pid, flush=True)
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return
        if pid == started.pid:
            print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
