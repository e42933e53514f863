"""Packages of other projects, from the index, where only the tests that ask for them find them."""

import subprocess
import sys


def installed(folder, *packages, needs=True):
    """A directory with these packages, and with what they need in turn, for ``PYTHONPATH``."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder, *packages]
    subprocess.run([*words, *([] if needs else ["--no-deps"])], check=True, timeout=900)
    return str(folder)
