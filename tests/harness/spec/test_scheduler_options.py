"""Options of schedulers: one declaration, from the file to agents, ranks, the simulator and records."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from places import ROOT

from harness.spec.naming import scheduler_name
from harness.spec.scheduler import scheduler_of
from workloads.options import Options
from workloads.validation import InputError

FIELD = "    bind: bool | str = True\n"
NEW = FIELD + "    nice: Annotated[int, Bounds(0, 19)] = 0\n"

USE = """
import json
from coordinator import policies
from coordinator.drive import running_jobs
from coordinator.wire.agent_config import Setup
from coordinator.wire.zmq_transport import Keys
from coordinator.workload import Workload
from harness.spec import experiment, experiment_source, overrides
from workloads.options import Options
from workloads.program import Program
from workloads.validation import InputError

def load(*settings):
    return experiment.load("x.toml", settings=settings)

def refused(*settings):
    try:
        load(*settings)
    except InputError as error:
        return str(error)

options = load("nice=5").schedulers[0].options
work = Workload((), policies.create("none", {}), (0,), options)
setup = Setup("/x", "ipc:///y", "key", Keys("a", "b"), None, 2.0, options)
print(json.dumps({
    "table": load("schedulers.0.nice=5").schedulers[0].table["nice"],
    "default": load().schedulers[0].table["nice"],
    "refused": refused("nice=20"),
    "swept": [one.options.nice for one in load("sweep.nice=[1,2]").schedulers],
    "rank": running_jobs.parallel(work, 0, Program(phases=1), 2)["options"]["nice"],
    "agent": Setup.decode(setup.encode()).options.nice,
}))
"""

FILE = """
processors = 1
[[jobs]]
program = { pattern = "BARRIER", processes = 1, dedicated_s = 1.0 }
[[schedulers]]
policy = "none"
"""


def test_an_option_is_added_by_one_line(tmp_path):
    for room in ("coordinator", "harness", "slurm", "lockstep"):
        (tmp_path / room).symlink_to(ROOT / room)
    shutil.copytree(ROOT / "workloads", tmp_path / "workloads")
    file = tmp_path / "workloads" / "options.py"
    text = file.read_text()
    assert FIELD in text
    file.write_text(text.replace(FIELD, NEW).replace("import Checked", "import Bounds, Checked"))
    (tmp_path / "x.toml").write_text(FILE)
    command = [sys.executable, "-P", "-c", USE]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert "from 0 to 19" in document.pop("refused")
    assert document == {"table": 5, "default": 0, "swept": [1, 2], "rank": 5, "agent": 5}


@pytest.mark.parametrize(
    "flat", [{"do_not_preempt": 3}, {"remedy": "warning", "warning_us": 2000}], ids=["deferrals", "warning"]
)
def test_the_keys_of_a_remedy_are_refused_outside_of_its_table(flat):
    with pytest.raises(InputError, match=r"is not a key that is known here|must be a table"):
        scheduler_of({"policy": "gang", "quantum_ms": 10, **flat})


def test_the_keys_of_a_remedy_are_checked_below_it():
    with pytest.raises(InputError, match=r"remedy.warning_us = 0: must be a number from 1 to 100000"):
        scheduler_of({"policy": "gang", "remedy": {"kind": "warning", "warning_us": 0}})
    with pytest.raises(InputError, match=r"remedy.kinds = 'warning': is not a key .* did you mean 'kind'"):
        scheduler_of({"policy": "gang", "remedy": {"kinds": "warning"}})
    with pytest.raises(InputError, match=r"remedy = 3: must be a table"):
        Options(remedy=3)
    deferring = scheduler_of({"policy": "gang", "quantum_ms": 10, "remedy": {"kind": "defer"}})
    assert scheduler_name(deferring.table) == "gang 10 ms, do not preempt 4"
