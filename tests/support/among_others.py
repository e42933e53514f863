"""The ``lockstep`` command on a host whose processors other tests use, too: what these take hides no row."""

from harness import cli
from harness.analyse import summary
from harness.measure import disturbance


def allow(set_attribute):
    """Let other programs take any share of the processors, in runs and in dedicated runs."""
    for limit in ("DISTURBED", "MOST", "IN_THE_MEAN", "LEFT"):
        set_attribute(disturbance, limit, 1.0)
    set_attribute(summary, "BELOW", 1.0)


if __name__ == "__main__":
    allow(setattr)
    raise SystemExit(cli.main())
