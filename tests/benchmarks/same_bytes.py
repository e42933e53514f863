"""Whether the simulators still print what they printed at another commit, byte for byte.

    python -P tests/benchmarks/same_bytes.py COMMIT [--kept DIRECTORY] [--only NAME ...]

Runs ``lockstep simulate NAME --json`` for every built-in experiment and ``lockstep reproduce PAPER --quick
--json`` for every paper, with the files of COMMIT and with the present ones, each time in an empty directory,
and names those whose outputs differ. Keys that were renamed since count by their present names. The simulated
machine in an output does not count: its fields are all constants of the table. Nor do digests of experiments,
which are over keys.
``--kept`` keeps the outputs of COMMIT there for the next time. Exits with 1 if any differs.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from benchmark import LOCKSTEP, RENAMED, ROOT, parsed, version


def commands():
    """The command line of each output, by name."""
    experiments = sorted(path.stem for path in (ROOT / "harness" / "experiments").glob("*.toml"))
    papers = sorted(path.stem for path in (ROOT / "harness" / "papers").glob("[!_]*"))
    simulated = {name: ["simulate", name, "--json"] for name in experiments}
    return simulated | {name: ["reproduce", name, "--quick", "--json"] for name in papers}


def printed(files, words):
    """The exit status and the standard output of Lockstep in a directory of its files."""
    with tempfile.TemporaryDirectory() as work:
        environment = os.environ | {"PYTHONPATH": str(files)}
        done = subprocess.run(
            [*LOCKSTEP, *words], env=environment, cwd=work, stdout=subprocess.PIPE, check=False
        )
        return f"{done.returncode}\n".encode() + done.stdout


def compared(output):
    """What counts in an output, with present keys: all but its simulated machine and digests."""
    kept = re.sub(rb'"machine": {.*?}|"digest": "\w+"', b"", output, flags=re.DOTALL)
    return re.sub(
        rb'"(\w+)":', lambda key: b'"%b":' % RENAMED.get(key[1].decode(), key[1].decode()).encode(), kept
    )


def main():
    options = parsed(__doc__, _commit=None, kept={"type": Path}, only={"nargs": "*", "default": ()})
    differ = []
    with version(options.commit) as before:
        kept = options.kept or Path(before) / "outputs"
        kept.mkdir(parents=True, exist_ok=True)
        for name, words in commands().items():
            if options.only and name not in options.only:
                continue
            output = kept / name
            if not output.exists():
                output.write_bytes(printed(before, words))
            same = compared(printed(ROOT, words)) == compared(output.read_bytes())
            print(f"{name:24} {'same' if same else 'DIFFERS'} ({output.stat().st_size} bytes)", flush=True)
            differ += [] if same else [name]
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
