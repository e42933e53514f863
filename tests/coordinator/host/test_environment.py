"""What a user's command finds in its environment: the shell's variables, and none of a job around us."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from places import ROOT, SUPPORT
from runs import AMONG_OTHERS, two_processors, workload

from coordinator.drive.driver import run_workload
from coordinator.host.environment import HELD, of_command
from coordinator.host.launcher_choice import find_launcher, launcher_at
from coordinator.host.launchers import Hydra, OpenMpi, Srun
from workloads.validation import InputError
from workloads.work import Command

TELL = "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + '/' + {}, 'w'))"
"""A program that writes its environment into a file of a directory; the file's name is to be filled in."""

RANK = "[os.environ[n] for n in ('PMI_RANK', 'OMPI_COMM_WORLD_RANK') if n in os.environ][0]"

OF_USERS = {
    "WM_PROJECT_DIR": "/opt/OpenFOAM",
    "CP2K_DATA_DIR": "/usr/share/cp2k data",
    "ESPRESSO_PSEUDO": "",
    "OMP_NUM_THREADS": "3",
    "PYTHONPATH": "/home/me/lib",
    "PMIX_MCA_gds": "hash",
    "SLURM_JOB_ID": "71",
    "BASH_FUNC_module%%": "() {  eval `modulecmd bash $*`\n}",
    "LS_COLORS": "di=01;34:ln=01;36;*.tar=31",
    "ODD": "=a;b\nc=\udcff\t'\"",
}
OF_A_JOB = {
    "PMI_RANK": "5",
    "PMI_FD": "999",
    "PMIX_NAMESPACE": "gone",
    "OMPI_COMM_WORLD_SIZE": "64",
    "OMPI_MCA_ess": "^singleton",
    "OMPI_MCA_orte_hnp_uri": "1.0;tcp://192.0.2.1:1",
    "SLURM_PROCID": "3",
    "SLURM_STEP_ID": "0",
    "LOCKSTEP_RECORD": "/nowhere",
}


def test_a_command_gets_what_the_shell_has_but_nothing_of_a_job_around_it():
    assert of_command({}, {**OF_USERS, **OF_A_JOB}) == OF_USERS
    assert of_command({"PATH": "", "OMP_NUM_THREADS": "1"}, OF_USERS) == {
        **OF_USERS,
        "PATH": "",
        "OMP_NUM_THREADS": "1",
    }


def test_a_launcher_does_not_see_what_would_change_it_and_the_program_does():
    marks = {"LOCKSTEP_RUN": "r", "TMPDIR": "/run"}
    source = {**OF_USERS, **OF_A_JOB, "TMPDIR": "/tmp", "SLURM_NTASKS": "8", "SLURM_CONF": "/c"}
    own = {"TMPDIR": "/scratch", "PYTHONHOME": "/theirs"}
    given = Hydra("mpiexec", "5").environment(marks, source, command=own)
    assert given["TMPDIR"] == "/run" and "SLURM_NTASKS" not in given
    assert "PYTHONHOME" not in given and given["PYTHONPATH"].endswith(":/home/me/lib")
    function, *rest = "BASH_FUNC_module%%", "PYTHONPATH", "SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_CONF"
    held = {name: source[name] for name in (function, *rest)}
    assert json.loads(given[HELD]) == {**held, **own}
    srun = Srun("srun", "", "pmi2").environment(marks, source, hosts=["a", "b"], command={})
    assert srun["SLURM_CONF"] == "/c" and "SLURM_NTASKS" not in srun
    assert not any(name.startswith("SLURM_") for name in json.loads(srun[HELD])), (
        "srun sets its ranks' values"
    )
    bare = Hydra("mpiexec", "5").environment(marks, {}, command={})
    assert json.loads(bare[HELD]) == {"PYTHONPATH": None}


def test_a_user_may_change_what_a_launcher_needs():
    openmpi = OpenMpi("mpirun", "4.1")
    assert openmpi.environment({}, {}, command={})["OMPI_MCA_mpi_yield_when_idle"] == "0"
    shell = {"OMPI_MCA_mpi_yield_when_idle": "1"}
    assert openmpi.environment({}, shell, command={})["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert openmpi.environment({}, {}, command=shell)["OMPI_MCA_mpi_yield_when_idle"] == "1"


@pytest.mark.parametrize(
    "wrong", [{"A-B": "1"}, {"": "1"}, {"LOCKSTEP_RUN": "1"}, {"A": 1}, {"A": "\0"}, "A=1"]
)
def test_variables_have_names_and_texts(wrong):
    with pytest.raises(InputError, match="environment"):
        Command(("true",), environment=wrong)


def kinds():
    there = [name for name in ("mpiexec", "mpiexec.openmpi") if shutil.which(name)]
    return pytest.mark.parametrize("launcher", there)


@pytest.mark.slow
@kinds()
def test_every_rank_finds_the_variables_of_the_shell_and_of_its_job(launcher, tmp_path, monkeypatch):
    for name, value in {**OF_USERS, **OF_A_JOB}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LARGE", "x" * 120_000)
    own = {"FOAM_SIGFPE": "1", "OMP_NUM_THREADS": "2", "TMPDIR": str(tmp_path)}
    argv = (sys.executable, "-c", TELL.format(RANK), str(tmp_path))
    result = run_workload(workload("batch", programs=[Command(argv, 2, launcher, environment=own)]))
    assert result.failure == ""
    wanted = {**OF_USERS, **own, "LARGE": "x" * 120_000}
    for rank in range(2):
        document = json.loads((tmp_path / str(rank)).read_text())
        assert {name: document.get(name) for name in wanted} == wanted
        size = document.get("PMI_SIZE") or document["OMPI_COMM_WORLD_SIZE"]
        assert (
            size == "2" and not {"SLURM_PROCID", "SLURM_STEP_ID", "LOCKSTEP_RECORD", HELD} & document.keys()
        )


@pytest.mark.slow
@kinds()
def test_all_that_a_launcher_adds_for_its_ranks_is_left_out(launcher, tmp_path):
    own_launcher = launcher_at(launcher)
    variables = own_launcher.environment({}, {"PATH": os.environ["PATH"]}, command={})
    argv = own_launcher.argv(1, [sys.executable, "-c", TELL.format("'0'"), str(tmp_path)])
    subprocess.run(argv, env=variables, check=True, timeout=60)
    rank = json.loads((tmp_path / "0").read_text())
    harmless = {
        *("GFORTRAN_UNBUFFERED_PRECONNECTED", "HFI_NO_BACKTRACE", "IPATH_NO_BACKTRACE", "PWD", "LC_CTYPE"),
    }
    settings = {name for name in rank if name.startswith(("OMPI_MCA_hwloc", "OMPI_MCA_rmaps", "PMIX_MCA_"))}
    assert of_command({}, rank).keys() - variables.keys() <= harmless | settings | {"LD_LIBRARY_PATH"}


EXPERIMENT = """
name = "inside"
processors = 2
repeats = 1
[[jobs]]
command = {}
[[schedulers]]
policy = "none"
"""


@pytest.mark.slow
def test_a_rank_of_a_job_can_run_a_command_as_a_fresh_job(tmp_path):
    two_processors()
    launcher = find_launcher()
    folder = tmp_path / "told"
    file = tmp_path / "inside.toml"
    folder.mkdir()
    command = ["mpiexec", "-n", "2", sys.executable, "-c", TELL.format(RANK), str(folder)]
    file.write_text(EXPERIMENT.format(json.dumps(command)))
    run = ["run", str(file), "--no-simulate", "--no-wait", "--results", str(tmp_path / "results")]
    argv = launcher.argv(1, [*AMONG_OTHERS, *run])
    variables = launcher.environment({}, command={}) | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(argv, env=variables, capture_output=True, timeout=120, check=False)
    assert result.returncode == 0, result.stderr
    assert {one.name for one in folder.iterdir()} == {"0", "1"}


def test_ranks_on_other_hosts_find_the_same(hosts, tmp_path):
    """Also values with lines in them, names that no shell would accept, and far more than fits on a line."""
    given = {**OF_USERS, **{f"LARGE{n}": f"{n}" * 120_000 for n in range(8)}}
    del given["SLURM_JOB_ID"]  # there is no Slurm
    setting = "import json, os, sys; os.environ.update(json.load(open(sys.argv[1])))"
    (tmp_path / "given").write_text(json.dumps({**given, "PYTHONPATH": str(ROOT)}))
    own = {"command": [sys.executable, "-c", TELL.format("os.uname().nodename"), str(tmp_path)]}
    options = json.dumps({"hosts": hosts.hosts, "jobs": 1, **own})
    start = f"{setting}; os.execv(sys.executable, [sys.executable, *sys.argv[2:]])"
    run = hosts.start(
        [sys.executable, "-c", start, str(tmp_path / "given"), str(SUPPORT / "runs.py"), options]
    )
    out, err = run.communicate(timeout=60)
    assert json.loads(out)["failure"] == "", err
    for host in ("node1", "node2"):
        document = json.loads((tmp_path / host).read_text())
        assert {name: document.get(name) for name in given} == {**given, "PYTHONPATH": str(ROOT)}
        assert not {"LOCKSTEP_RECORD", HELD} & document.keys()
    assert not hosts.processes() and not hosts.files()
