"""How replies of Slurm's tools are read, whatever a site makes of them.

``python tests/benchmarks/slurm_replies.py [--cases N] [--seed N]``

A case is a script's life with tools that print what was drawn: ids and states between banners, on clusters,
in arrays, with line ends of another system, errors, lost ids. Prints how many replies were read, how many
readings ended in a traceback and how many were wrong, and the first of these. A case takes some 0.1 s.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import parsed
from slurm_replies import tried


def main() -> int:
    options = parsed(__doc__, cases=500, seed=1)
    with tempfile.TemporaryDirectory() as name:
        os.environ["PATH"] = f"{name}:{os.environ['PATH']}"
        found = tried(Path(name), options.cases, options.seed)
    sys.stdout.write(
        f"{options.cases} cases, {found.replies} replies: {found.tracebacks} tracebacks, "
        f"{found.wrong} wrong readings\n{found.first}"
    )
    return int(bool(found.first))


if __name__ == "__main__":
    sys.exit(main())
