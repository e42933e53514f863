"""What all tests share: a process that can be interrupted, however it was started."""

import signal


def pytest_configure():
    """Undo what a shell does to jobs in the background (and nohup), which children would inherit."""
    for signum in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)
