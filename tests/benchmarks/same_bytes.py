"""Whether the simulators still print what they printed at another commit, byte for byte.

    python -P tests/benchmarks/same_bytes.py COMMIT [--kept DIRECTORY] [--only NAME ...]

Runs ``lockstep simulate NAME --json`` for every built-in experiment and ``lockstep reproduce PAPER --quick
--json`` for every paper, with the files of COMMIT and with the present ones, each time in an empty directory,
and names those whose outputs differ. The simulated machine in an output does not count: its fields are all
constants of the table, by their present names.
``--kept`` keeps the outputs of COMMIT there for the next time. Exits with 1 if any differs.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


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
        line = [sys.executable, "-P", "-m", "harness", *words]
        done = subprocess.run(line, env=environment, cwd=work, stdout=subprocess.PIPE, check=False)
        return f"{done.returncode}\n".encode() + done.stdout


def compared(output):
    """What counts in an output: all but its simulated machine."""
    return re.sub(rb'"machine": {.*?}', b"", output, flags=re.DOTALL)


def main():
    """Compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("commit")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--only", nargs="*", default=())
    options = parser.parse_args()
    differ = []
    with tempfile.TemporaryDirectory() as before:
        archive = subprocess.run(
            ["git", "archive", options.commit], cwd=ROOT, check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", before], input=archive, check=True)
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
