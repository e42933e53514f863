"""The whole surface of Lockstep as a sorted list, so that those of two versions can be compared with diff.

    python -P tests/benchmarks/surface.py [TREE] > after

TREE is a directory with the files of a version, by default this one. Each line is one thing that a user can
write or read: commands with options, keys of the experiment file, policies with fields and defaults, waiting
rules, patterns, papers with figures, built-in experiments, paths in JSON documents, columns of files,
formats, exports of ``lockstep`` with signatures. ``fake_runs`` of the tests makes up the runs.
"""
# ruff: noqa: PLC0415 - the modules of the tree are found only once main has set the path

import argparse
import inspect
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent.parent).resolve()
UNKNOWN = "zqxj"
SMALL = {"pattern": "NEWS", "processes": 2, "granularity_us": 100, "phases": 10}
LOCK = {"pattern": "LOCK", "processes": 2, "granularity_us": 100, "phases": 10, "section_us": 5}
GANG = {"policy": "gang"}
EXPERIMENT = """
name = "surface"
processors = 2
repeats = 3
[[jobs]]
count = 2
program = { pattern = "NEWS", processes = 2, granularity_us = 100, phases = 10 }
[[schedulers]]
policy = "gang"
[[schedulers]]
policy = "none"
"""
JOBS = """
level = "jobs"
processors = 8
replications = 3
[model]
load = 0.3
count = 200
maxima = [2, 8]
[[schedulers]]
policy = "sdf"
[[schedulers]]
policy = "fcfs"
"""


def commands():
    """Commands, their positional arguments and options, with choices and defaults."""
    from harness.cli import parser

    _, parsers = parser().get_default("whole")()
    for one in parsers:
        for action in one._actions:
            if isinstance(action, argparse._HelpAction):
                continue
            names = " ".join(sorted(action.option_strings)) or action.metavar or action.dest
            chosen = f" of {'|'.join(map(str, action.choices))}" if action.choices else ""
            yield f"command {one.prog.split()[-1]}: {names}{chosen}, default {action.default!r}"


def known(error):
    """The keys that an error about an unknown key names."""
    found = re.search(r"known are (.*)$", str(error).splitlines()[0])
    assert found, error
    return found[1].split(", ")


def file_keys():
    """Keys of the experiment file, by the errors that name them."""
    import lockstep
    from coordinator import policies

    def experiment(*, job=None, program=SMALL, scheduler=GANG, **more):
        jobs = [job or {"program": dict(program)}]
        return {"processors": 2, "jobs": jobs, "schedulers": [dict(scheduler)], **more}

    extra = {UNKNOWN: 1}
    cases = {
        "": experiment() | extra,
        "jobs.": experiment(job={"program": SMALL} | extra),
        "jobs.program.": experiment(program=SMALL | extra),
        "jobs.program(LOCK).": experiment(program=LOCK | extra),
        "jobs(sequential).": experiment(job={"kind": "sequential", "work_s": 1} | extra),
        "jobs(interactive).": experiment(
            job={"kind": "interactive", "think_ms": 1, "burst_ms": 1, "bursts": 1} | extra
        ),
        "jobs(command).": experiment(job={"command": ["true"], "processes": 2} | extra),
        "machine.": experiment(machine=extra),
        "owners.": experiment(owners=[extra]),
        "repeats.": experiment(repeats=extra),
        "slurm.": experiment(slurm=extra),
    }
    for policy in policies.known():
        cases[f"schedulers({policy})."] = experiment(scheduler={"policy": policy} | extra)
    for prefix, written in cases.items():
        try:
            lockstep.simulate(written, results=tempfile.gettempdir())
        except lockstep.InputError as error:
            yield from (f"key {prefix}{key}" for key in known(error))


def job_level_keys():
    """Keys of an experiment of jobs, by the errors that name them."""
    with tempfile.TemporaryDirectory() as folder:
        for prefix, key in (("", UNKNOWN), ("model.", f"model.{UNKNOWN}")):
            Path(folder, "jobs.toml").write_text(JOBS)
            refusal = printed("simulate", "jobs.toml", "--set", f"{key}=1", folder=folder)
            yield from (f"key (jobs) {prefix}{known_key}" for known_key in known(refusal))


def registered():
    """Policies with fields and defaults, what else an experiment can name, built-in experiments, papers."""
    document = json.loads(printed("policies", "--json"))
    for one in document["policies"]:
        yield f"policy {one['policy']}: {one['what']}"
        yield from (f"policy {one['policy']}.{name} = {value!r}" for name, value in one["parameters"].items())
    for kind in ("blocking", "remedies", "patterns", "queues"):
        yield from (f"{kind} {name}" for name in document[kind])
    yield from (f"mechanism {one['mechanism']}" for one in document["mechanisms"])
    yield from (f"experiment {path.stem}" for path in (ROOT / "harness" / "experiments").glob("*.toml"))
    help_text = printed("reproduce", "--help")
    papers = re.search(r"one of ([\w,\s]+)", help_text)
    for paper in papers[1].split("\n\n")[0].split("options")[0].replace(",", " ").split():
        refusal = printed("reproduce", paper, "--figure", UNKNOWN)
        yield f"paper {paper}: figures {re.search('one of (.*);', refusal)[1]}"


def printed(*words, folder=None, imitated=False):
    """Standard output and errors of a command; ``imitated``: its runs are made up."""
    here = {"PYTHONPATH": str(ROOT), "COLUMNS": "10000"}
    start = [sys.executable, "-P", "-m", "harness"]
    if imitated:
        (script,) = (ROOT / "tests").rglob("fake_runs.py")
        helpers = {path.parent for path in (ROOT / "tests").rglob("fake_*.py")}
        here["PYTHONPATH"] = os.pathsep.join(map(str, [ROOT, *helpers]))
        start = [sys.executable, str(script), "0"]
    done = subprocess.run(
        [*start, *words],
        env=os.environ | here,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if "--json" in words else subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


def paths(value, path=""):
    """All paths in a JSON document; elements of lists count as one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for inner in value:
            yield from paths(inner, f"{path}[]")
    else:
        yield path


def documents():
    """Paths in the documents of --json, columns of files, and elements of reports."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "surface.toml").write_text(EXPERIMENT)
        Path(folder, "jobs.toml").write_text(JOBS)
        made = {
            "calibrate": ["calibrate"],
            "run": ["run", "surface.toml", "--timeline"],
            "simulate": ["simulate", "surface.toml"],
            "simulate of jobs": ["simulate", "jobs.toml"],
            "compare": ["compare", "lockstep-results"],
            "compare --between": ["compare", "lockstep-results", "--between", "none", "gang 100 ms"],
            "list": ["list"],
            "trace": ["trace", "lockstep-results"],
            "report": ["report", "lockstep-results"],
            "policies": ["policies"],
            "policies POLICY": ["policies", "gang"],
            "reproduce": ["reproduce", "hori96", "--figure", "7", "--quick"],
            "submit --dry-run": ["submit", "surface.toml", "--dry-run"],
            "doctor": ["doctor"],
        }
        for name, words in made.items():
            output = printed(*words, "--json", folder=folder, imitated=True)
            document = json.loads(output) if output.startswith("{") else {"output": output}
            yield from (f"document of {name}: {path}" for path in sorted(set(paths(document))))
        printed("report", "lockstep-results", "-o", "r.csv", folder=folder, imitated=True)
        yield f"columns of report.csv: {Path(folder, 'r.csv').read_text().splitlines()[0]}"
        printed("report", "lockstep-results", "-o", "r.md", folder=folder, imitated=True)
        table = [line for line in Path(folder, "r.md").read_text().splitlines() if line.startswith("|")]
        yield f"columns of report.md: {table[0]}"
        refusal = printed("report", "lockstep-results", "--format", UNKNOWN, folder=folder, imitated=True)
        yield f"report --format: {refusal.splitlines()[-1]}"
        refusal = printed(
            "report", "lockstep-results", "-o", "r.png", "--picture", UNKNOWN, folder=folder, imitated=True
        )
        yield f"report --picture: {refusal.splitlines()[-1]}"
        printed("simulate", "jobs.toml", "-o", "of-jobs", folder=folder)
        yield from (f"simulate -o of jobs: {path.name}" for path in Path(folder, "of-jobs").iterdir())
        metrics = Path(folder, "of-jobs", "metrics.csv").read_text().splitlines()
        yield f"columns of metrics.csv: {metrics[0]}"
        yield from frames(Path(folder, "lockstep-results"))


def frames(folder):
    """Columns of the frames of ``lockstep``."""
    import lockstep

    found = lockstep.load(folder)
    yield from (f"column of rows(): {name}" for name in found.rows().columns)
    yield from (f"column of jobs(): {name}" for name in found.jobs().columns)
    compared = lockstep.compare(folder, between=("none", "gang 100 ms"))
    yield from (f"column of compare(): {name}" for name in compared.columns)


def exports():
    """What ``lockstep`` exports, with signatures."""
    import lockstep

    for name in lockstep.__all__:
        one = getattr(lockstep, name)
        signature = inspect.signature(one) if inspect.isfunction(one) or name == "Results" else ""
        yield f"lockstep.{name}{signature}"
    yield from (f"lockstep.Results.{name}" for name in dir(lockstep.Results) if not name.startswith("_"))
    yield from (f"lockstep.plot.{name}" for name in getattr(lockstep.plot, "__all__", []))


def main():
    """Print the list."""
    sys.path.insert(0, str(ROOT))
    lines = [*commands(), *file_keys(), *job_level_keys(), *registered(), *documents(), *exports()]
    print("\n".join(sorted(set(lines))))


if __name__ == "__main__":
    main()
