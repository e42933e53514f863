"""Lockstep on a host whose processors other tests use, too: each run is made once, and no row is hidden.

``python among_others.py ARGUMENTS...`` is the ``lockstep`` command so, with nominal constants.
"""

from harness.__main__ import main
from harness.analyse import summary
from harness.measure import disturbance, runner
from harness.measure.session import MeasurementSession
from harness.store import conditions


def once(set_attribute):
    """Repeat no run because others disturb it, and give all patience that an idle host is given."""
    set_attribute(conditions, "wanting", lambda: 0)
    set_attribute(runner, "AGAIN", 0)


def allow(set_attribute):
    """Let other programs take any share of the processors, in runs and in dedicated runs."""
    for limit in ("DISTURBED", "MOST", "IN_THE_MEAN", "LEFT"):
        set_attribute(disturbance, limit, 1.0)
    set_attribute(summary, "BELOW", 1.0)


def uncalibrated(set_attribute):
    """Take nominal constants: a calibration takes seconds, and several times that beside others."""
    set_attribute(MeasurementSession, "calibrate", lambda *_, **__: [])


def replace(owner, name, value):
    """Set an attribute that there is, for the rest of this process."""
    getattr(owner, name)
    setattr(owner, name, value)


def settle():
    """All of it, for the rest of this process."""
    for part in (once, allow, uncalibrated):
        part(replace)


if __name__ == "__main__":
    settle()
    raise SystemExit(main())
