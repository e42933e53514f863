"""Build the wheel of lockstep-exec: ``python .ci/light_wheel.py DIRECTORY`` prints its path.

It has the sources of Lockstep, all but the papers, formats of other tools, the schema, turns of Slurm's jobs
and both levels of the simulator. It asks for psutil and pyzmq only: enough for exec, tune, colocate, turns,
doctor and clean. The others say which package is missing.
"""

import shutil
import subprocess
import sys
import tempfile
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAME = "lockstep-exec"
LEFT_OUT = (".*", "*.egg-info", "build", "tests", "docs", "papers", "jobs", "processes", "__pycache__")
LEFT_OUT += ("batsim.py", "goal.py", "goal_text.py", "otf2_archive.py", "slurm_turns.py")
LEFT_OUT += ("json_schema.py", "json_schema_rules.py")
NEEDS = ("psutil", "pyzmq")


def build(directory: Path) -> Path:
    """The wheel, built from a copy of the tree."""
    with tempfile.TemporaryDirectory() as copy:
        tree = Path(copy) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        settings = ConfigParser(interpolation=None)
        settings.read(tree / "setup.cfg")
        settings["metadata"]["name"] = NAME
        full = settings["options"]["install_requires"].split()
        kept = [one for one in full if one.startswith(NEEDS)]
        settings["options"]["install_requires"] = "".join(f"\n{one}" for one in kept)
        with (tree / "setup.cfg").open("w") as file:
            settings.write(file)
        words = ["wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory), str(tree)]
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    (made,) = directory.glob(f"{NAME.replace('-', '_')}-{settings['metadata']['version']}-*.whl")
    return made


if __name__ == "__main__":
    print(build(Path(sys.argv[1])))
