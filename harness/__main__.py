"""The console script, also ``python -m harness``: it handles signals while the rest is imported."""

import sys

from harness import end_quietly_when_interrupted


def main() -> int:
    """Run the command, which sets its handlers once it begins; returns the exit status."""
    end_quietly_when_interrupted()
    from harness import cli  # noqa: PLC0415 - after the handlers

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
