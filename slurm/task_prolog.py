"""A TaskProlog of Slurm, which gives the ranks of a step the library of ``lockstep exec``.

Who needs the library, and what the script does not cover, is in docs/how-to/slurm-prolog.md.
"""

import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

SCRIPT = "task-prolog"


def text(library: Path, variables: Mapping[str, str]) -> str:
    """The script: tasks that need it get ``library`` preloaded, and the other variables.

    Slurm takes a variable from one line, so no value has a line break.
    """
    lines = [f"export {name}={value}" for name, value in variables.items()]
    if any("\n" in line for line in (str(library), *lines)):
        raise ValueError("no variable may have a line break")
    template = (resources.files("slurm") / "task-prolog.in").read_text(encoding="utf-8")
    printed = "\n".join(f"    printf '%s\\n' {shlex.quote(line)}" for line in lines)
    return template.replace("{{ library }}", shlex.quote(str(library))).replace("{{ exports }}", printed)
