"""Where the tests, their helpers and the project are."""

import subprocess
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent


def tracked():
    """The names of all files of the project, of which others may lie about; None without git."""
    words = ["git", "-C", ROOT, "ls-files", "-z", "--cached"]
    listed = subprocess.run(words, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return None
    return {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
