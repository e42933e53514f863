"""What all tests share: a process that can be interrupted, however it was started."""

import signal


def pytest_configure():
    """Undo what a shell does to jobs in the background (and nohup), which children would inherit."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for signum, handler in usual.items():
        if signal.getsignal(signum) is signal.SIG_IGN:
            signal.signal(signum, handler)
