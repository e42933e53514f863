"""``lockstep doctor -- COMMAND``: what will hurt a command, and nothing of it is started."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from elf_files import elf

from coordinator.host.rank_processes import RankProcess
from harness import cli
from harness.measure import command_check
from harness.measure.command_check import Host, check
from harness.measure.host_check import Finding
from harness.measure.planned_launch import MOST_LAUNCHES, planned
from workloads import shared_libraries

EIGHT = Host(frozenset(range(8)), cores=8)
OPENMP, OPENBLAS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"
MPICH, OPEN_MPI = "HYDRA", "OpenRTE"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A directory, the only one with programs and libraries."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shared_libraries, "_cached", dict)
    monkeypatch.setattr(shared_libraries, "SYSTEM", ())
    monkeypatch.setattr(command_check, "candidates", lambda: map(str, (tmp_path / "bin").iterdir()))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    elf(tmp_path / "lib" / "libgomp.so.1", holds=OPENMP)
    elf(tmp_path / "lib" / "libopenblas.so.0", holds=OPENBLAS)
    for name in ("libmpi.so.12", "libmpi.so.40", "libopen-rte.so.40"):
        elf(tmp_path / "lib" / name, ["libopen-rte.so.40"] if name == "libmpi.so.40" else [])
    program("mpiexec", text=MPICH)
    program("mpirun", text=OPEN_MPI)
    for name in ("env", "taskset", "sh", "timeout", "lockstep", "mpicc"):
        program(name)
    return tmp_path


def program(name, *needs, text=""):
    """A program in ``bin``: with libraries an ELF file, else a script, which leaves a file at its start."""
    place = Path("bin", name)
    place.parent.mkdir(exist_ok=True)
    if needs:
        elf(place, needs, runpath=str(Path("lib").absolute()))
    else:
        place.write_text(f"#!/bin/nothing\n# {text}\ntouch started\n")
        place.chmod(0o755)


def told(command, host=EIGHT, **variables):
    """Subjects of what will hurt, with what is told and the remedy."""
    findings = check(shlex.split(command), variables, host)
    assert not Path("started").exists()
    return {one.subject: f"{one.found}: {one.remedy}" for one in findings}


def test_threads_that_a_quota_stops_are_told_with_the_number_that_fits(here):
    program("app", "libopenblas.so.0")
    assert told("app") == {}
    assert told("app", replace(EIGHT, quota=4.0)) == {
        "threads": "8 threads of OpenBLAS will spin on a quota of 4 processors: OPENBLAS_NUM_THREADS=4"
    }
    assert told("app", replace(EIGHT, quota=0.5))["threads"].endswith("OPENBLAS_NUM_THREADS=1")
    assert told("app", replace(EIGHT, quota=4.0), OPENBLAS_NUM_THREADS="4") == {}
    assert told("app", replace(EIGHT, quota=4.0), OMP_NUM_THREADS="2") == {}
    assert told("app", replace(EIGHT, quota=4.0), OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="6").keys() == {
        "threads"
    }


@pytest.mark.parametrize(
    ("command", "hurts"),
    [
        ("mpiexec -n 2 app", "16 threads"),  # of two ranks
        ("mpiexec -n 2 -genv OMP_NUM_THREADS 4 app", ""),
        ("OMP_NUM_THREADS=5 mpiexec -n 2 app", "5 threads of OpenMP in each of 2 ranks"),
        ("env OMP_NUM_THREADS=4 mpiexec -n 2 app", ""),
        ("mpiexec -n 1 app : -n 1 app", "in each of 2 ranks"),
        ("taskset -c 0-3 app", ""),
        ("taskset -c 0-3 env OMP_NUM_THREADS=8 app", "8 threads of OpenMP will spin on 4 processors"),
        ("taskset f env OMP_NUM_THREADS=8 app", "8 threads of OpenMP will spin on 4 processors"),
        ("timeout 10 mpiexec -n 3 app", "in each of 3 ranks will spin on 8 processors"),
        ("sh -c 'OMP_NUM_THREADS=4 mpiexec -n 2 app'", ""),
        ("sh -c 'export OMP_NUM_THREADS=4; mpiexec -n 3 app'", "in each of 3 ranks"),
    ],
)
def test_ranks_times_threads(here, command, hurts):
    program("app", "libgomp.so.1")
    findings = told(command)
    assert findings.keys() == ({"threads"} if hurts else set())
    assert hurts.replace("16 threads", "8 threads of OpenMP in each of 2 ranks") in findings.get(
        "threads", ""
    )


def test_threads_that_spin_for_ever_are_told_only_where_they_are_too_many(here):
    program("app", "libgomp.so.1")
    assert told("app", OMP_WAIT_POLICY="active") == {}
    assert (
        "OMP_WAIT_POLICY=active"
        in told("app", replace(EIGHT, quota=2.0), OMP_WAIT_POLICY="active")["spinning"]
    )


def test_threads_on_one_core(here):
    program("app", "libgomp.so.1", "libmpi.so.40")
    line = told("mpirun -n 2 app", OMP_NUM_THREADS="4")["binding"]
    assert line == (
        "mpirun binds each rank to one core, where its 4 threads take turns: --map-by slot:PE=4, or "
        "--bind-to none"
    )
    for words in ("--bind-to none", "--map-by slot:PE=4", "--bind-to socket"):
        assert told(f"mpirun {words} -n 2 app", OMP_NUM_THREADS="4") == {}
    assert told("mpirun -n 2 app") == {}  # as many threads as a rank has processors
    variables = {"OMP_NUM_THREADS": "2", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    assert told("mpirun -n 2 app", **variables) == {}


def test_threads_of_all_ranks_that_bind_to_the_same_processors(here):
    program("app", "libgomp.so.1")
    variables = {"OMP_NUM_THREADS": "2", "OMP_PROC_BIND": "close"}
    assert "OMP_PROC_BIND=close" in told("mpiexec -n 2 app", **variables)["binding"]
    assert told("mpiexec -n 1 app", **variables) == {}
    assert told("mpiexec -n 2 app", **variables | {"OMP_PROC_BIND": "false"}) == {}


def test_more_ranks_than_processors(here):
    program("app", "libmpi.so.12")
    assert told("mpiexec -n 8 app") == {}
    assert told("mpiexec -n 9 app")["ranks"].startswith("9 ranks will spin on 8 processors")
    assert "lockstep exec --" in told("mpiexec -n 5 app", replace(EIGHT, quota=4.0))["ranks"]
    assert "ranks" not in told("mpiexec -n 9 app", MPIR_CVAR_POLLS_BEFORE_YIELD="1")


def test_what_open_mpi_refuses(here):
    program("app", "libmpi.so.40")
    assert (
        "refuses to run as root: --allow-run-as-root"
        in told("mpirun -n 2 app", replace(EIGHT, root=True))["root"]
    )
    assert told("mpirun --allow-run-as-root -n 2 app", replace(EIGHT, root=True)) == {}
    assert told("mpirun -n 9 app")["slots"] == (
        "mpirun of Open MPI refuses 9 ranks on 8 cores: --oversubscribe, or fewer ranks"
    )
    assert "slots" not in told("mpirun --oversubscribe -n 9 app")
    assert "one to each" in told("mpirun --oversubscribe --bind-to core -n 9 app")["binding"]
    assert "binding" not in told("mpirun --oversubscribe --bind-to core:overload-allowed -n 9 app")
    assert told("mpiexec -bind-to core -n 9 app")["binding"].endswith("-bind-to none")


def test_taskset_before_a_launcher_that_binds(here):
    program("app", "libmpi.so.40")
    assert told("taskset -c 6,7 mpirun -n 2 app")["taskset"] == (
        "taskset has no effect on mpirun of Open MPI, which binds ranks from processor 0 on: --cpu-set 6-7, "
        "or --bind-to none"
    )
    assert told("taskset -c 6,7 mpirun --bind-to none -n 2 app") == {}
    assert told("taskset -c 6,7 mpiexec -n 2 ./bin/mpiexec") == {}


def test_the_launcher_of_another_mpi(here):
    program("ours", "libmpi.so.12")
    program("theirs", "libmpi.so.40")
    line = told("mpiexec -n 2 theirs")["MPI"]
    assert "mpiexec is of another MPI (mpich) than theirs, which loads libopen-rte.so.40" in line
    assert line.endswith(f"start it with {here}/bin/mpirun")
    assert "which loads libmpi.so.12" in told("mpirun -n 2 ours")["MPI"]
    assert told("mpiexec -n 2 ours") == told("mpirun -n 2 theirs") == {}


def test_other_hosts_and_a_missing_file_of_hosts(here, monkeypatch):
    program("app")
    Path("hosts").write_text("node1\nnode2\n")
    assert "--hosts a,b names other hosts" in told("mpiexec -hosts a,b -n 2 app")["hosts"]
    assert "--hostfile hosts names other hosts" in told("mpirun --hostfile hosts -n 2 app")["hosts"]
    assert "--hostfile nowhere cannot be read" in told("mpirun --hostfile nowhere -n 2 app")["hosts"]
    assert "PBS_NODEFILE=hosts" in told("mpiexec -n 2 app", PBS_NODEFILE="hosts")["hosts"]
    assert told("mpiexec -hosts localhost -n 2 app") == {}


def test_a_program_that_is_not_there(here):
    assert told("mpiexec -n 2 ./app")["program"].startswith("./app was not found")
    assert told("nowhere").keys() == {"program"}


def test_little_shared_memory(here):
    program("app")
    scarce = replace(EIGHT, memory=Finding("shared memory", "1 MiB free in /dev/shm", "make room"))
    assert told("mpiexec -n 2 app", scarce)["shared memory"].startswith("1 MiB free in /dev/shm, where ranks")
    assert told("app", scarce) == told("mpiexec -n 1 app", scarce) == {}


def test_a_missing_wrapper_hurts_where_two_phase_waits_are_asked_for(here):
    program("app")
    Path("bin", "mpicc").unlink()
    assert told("mpiexec -n 2 app") == {}
    assert "lockstep exec needs it: install" in told("lockstep exec -- mpiexec -n 2 app")["mpicc"]
    assert told("mpiexec -n 20 app").keys() == {"ranks", "mpicc"}  # whose remedy is lockstep exec
    program("mpicc")
    assert told("lockstep exec -- mpiexec -n 20 app") == {}


@pytest.mark.parametrize("launcher", ["mpiexec", "mpirun"])
@pytest.mark.parametrize("words", ["-n x", "-np 0", "-n=2x", "-n -2"])
def test_what_is_no_number_of_ranks(here, launcher, words):
    program("app")
    finding = told(f"{launcher} {words} app")["count"]
    assert finding.startswith(f"{words} of {launcher} is no number of ranks: a whole number from 1 on")
    assert "count" not in told(f"{launcher} -n 2 app") and "count" not in told(f"{launcher} -n '$N' app")


@pytest.mark.parametrize(
    ("launcher", "name", "value"),
    [
        ("mpiexec", "MPIR_CVAR_POLLS_BEFORE_YIELD", "0"),
        ("mpiexec", "MPICH_POLLS_BEFORE_YIELD", "0"),
        ("mpirun --oversubscribe", "OMPI_MCA_mpi_yield_when_idle", "0"),
    ],
)
def test_settings_by_which_ranks_spin_hurt_where_they_are_too_many(here, launcher, name, value):
    program("app")
    other = {"mpiexec": "mpirun --oversubscribe"}.get(launcher, "mpiexec")
    assert (
        f"={value} lets ranks spin that would yield"
        in told(f"{launcher} -n 9 app", **{name: value})["spinning"]
    )
    assert "spinning" not in told(f"{launcher} -n 8 app", **{name: value})
    assert "spinning" not in told(f"{launcher} -n 9 app", **{name: "1"})
    assert "spinning" not in told(f"{other} -n 9 app", **{name: value})  # it does not read the variable
    assert "spinning" not in told(f"lockstep exec -- {launcher} -n 9 app", **{name: value})


def test_settings_may_be_words_of_a_launcher_and_threads_of_mpi_count(here):
    program("app")
    assert "spinning" in told("mpirun --oversubscribe --mca mpi_yield_when_idle 0 -n 9 app")
    assert "adds a thread" in told("mpiexec -genv MPIR_CVAR_ASYNC_PROGRESS 1 -n 5 app")["spinning"]
    assert "spinning" in told("lockstep exec -- mpiexec -n 5 app", MPIR_CVAR_ASYNC_PROGRESS="1")
    assert "spinning" not in told("mpiexec -n 4 app", MPIR_CVAR_ASYNC_PROGRESS="1")


def test_a_compiler_of_mpi_that_a_script_calls_may_be_missing(here):
    Path("bin", "mpicc").unlink()
    script("run.sh", "mpicc -o app app.c", "gcc app.c")
    assert told("./run.sh")["program"].startswith("mpicc was not found")


def others(*masks, busy=1):
    return [RankProcess(10 + n, 1, frozenset(mask), True, busy, (10 + n,)) for n, mask in enumerate(masks)]


def test_ranks_of_others_on_the_same_processors(here):
    program("app")
    bound, free = replace(EIGHT, ranks=others({0}, {1})), replace(EIGHT, ranks=others(*[range(8)] * 7))
    assert "lockstep exec --spread --" in told("mpirun -n 2 app", bound)["other ranks"]
    assert told("mpiexec -n 2 app", bound) == told("mpiexec -n 1 app", free) == {}
    assert "too few for both (9 threads want one)" in told("mpiexec -n 2 app", free)["other ranks"]
    assert told("mpirun -n 2 app", replace(EIGHT, ranks=others({0}, {1}, busy=0))) == {}
    assert told("mpirun -n 2 app", replace(bound, processors=frozenset({2, 3}))) == {}


def test_scripts_are_read(here):
    program("app", "libgomp.so.1")
    Path("run.sh").write_text(
        "#!/bin/sh\nexport OMP_NUM_THREADS=3\nRANKS=4\nif true; then\n"
        "  mpiexec \\\n  -n $RANKS app > out 2>&1\nfi\nmpiexec -n $1 nowhere\ntouch started\n"
    )
    Path("run.sh").chmod(0o755)
    for command in ("./run.sh", "sh run.sh", "sh -c ./run.sh"):
        findings = told(command)
        assert findings["threads"].startswith("3 threads of OpenMP in each of 4 ranks")
        assert findings["program"].startswith("nowhere was not found")


@pytest.mark.parametrize("command", ["/dev/zero", "./pipe", "sh /dev/zero", "sh pipe", "{python} pipe"])
def test_what_has_no_end_is_not_read(python, command):
    os.mkfifo("pipe")
    Path("pipe").chmod(0o755)
    told(command.format(python=python))


def script(name, *lines):
    Path(name).write_text("\n".join(["#!/bin/sh", *lines, ""]))
    Path(name).chmod(0o755)


def test_a_script_that_starts_itself_is_followed_once(here):
    script("run.sh", *["./run.sh", "sh -c ./run.sh"] * 30, "mpiexec -n 9 ./nowhere")
    assert told("./run.sh").keys() == {"program", "ranks"}
    assert len(planned(["./run.sh"], {}, EIGHT.processors)) == 1


def test_launches_are_followed_up_to_a_number(here):
    program("app")
    script("run.sh", *["mpiexec -n 2 app"] * 2 * MOST_LAUNCHES)
    assert len(planned(["./run.sh"], {}, EIGHT.processors)) == MOST_LAUNCHES


@pytest.mark.parametrize(
    ("line", "hurts"),
    [
        ("mpiexec -n 2 ./app", True),
        ("mpiexec -n 2 $BUILD/app", False),
        ("mpiexec -n 2 `which app`", False),
        ("cd build && mpiexec -n 2 ./app", False),
        ("pushd build; mpiexec -n 2 ./app", False),
        ("if true; then cd build; fi; mpiexec -n 2 ./app", False),
        ("cd build && mpiexec -n 2 /nowhere/app", True),
        ("cd build && mpiexec -n 2 app", True),  # by PATH
        ("mpirun -wdir build -n 2 ./app", False),
        ("mpirun -wd build -n 2 ./app", False),
        ("srun --chdir=build -n 2 ./app", False),
        ("srun -D build -n 2 ./app", False),
        ("env -C build ./app", False),
    ],
)
def test_programs_whose_place_is_unknown_are_not_missing(here, line, hurts):
    program("srun", text="slurm")
    script("run.sh", line)
    assert ("program" in told("./run.sh")) is hurts


def test_processors_of_a_rank_are_no_ranks(here):
    program("app")
    program("srun", text="slurm")
    host = replace(EIGHT, processors=frozenset(range(4)))
    assert "ranks" not in told("srun -c 8 -n 2 app", host)
    assert "ranks" in told("mpirun -c 8 app", host)


def test_ranks_get_what_a_script_exports(here):
    program("app", "libgomp.so.1")
    for lines, threads in (
        (["OMP_NUM_THREADS=4"], 8),
        (["OMP_NUM_THREADS=4", "export OMP_NUM_THREADS"], 4),
        (["if true; then export OMP_NUM_THREADS=4; fi"], 4),
        (["set -a", "OMP_NUM_THREADS=4"], 4),
    ):
        script("run.sh", *lines, "mpiexec -n 3 app")
        assert told("./run.sh")["threads"].startswith(f"{threads} threads")
    script("run.sh", "OMP_NUM_THREADS=4", "mpiexec -n 3 app")
    assert told("./run.sh", OMP_NUM_THREADS="2")["threads"].startswith("4 threads")


def package(folder, name, libraries=(), requires=()):
    """An installed distribution with compiled libraries."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}")
    (info / "RECORD").write_text("".join(f"{one},,\n" for one in libraries))


@pytest.fixture
def python(here):
    """An environment with numpy, and scipy which requires it."""
    site = here / "venv" / "lib" / "python3.11" / "site-packages"
    elf(site / "numpy" / "core.cpython-311.so", ["libscipy_openblas-1.so"], runpath="$ORIGIN/../numpy.libs")
    elf(site / "numpy.libs" / "libscipy_openblas-1.so", holds=OPENBLAS)
    package(site, "numpy", ["numpy/core.cpython-311.so"])
    package(site, "scipy", requires=["numpy (<3,>=1)", "pytest ; extra == 'test'"])
    program("python3")
    interpreter = here / "venv" / "bin" / "python"
    interpreter.parent.mkdir()
    interpreter.write_text("#!/bin/nothing\n# touch started\n")
    interpreter.chmod(0o755)
    return interpreter


@pytest.mark.parametrize(
    ("text", "words", "hurts"),
    [
        ("import numpy as np", "train.py", True),
        ("def late():\n    from numpy.linalg import norm", "train.py", True),
        ("import scipy.linalg", "-u train.py --steps 3", True),
        ("import model", "train.py", True),  # a module next to it
        ("import os", "-X dev train.py", False),
        ("import os, broken(", "train.py", False),
        ("", "-c 'import numpy'", True),
        ("", "-m scipy", True),
        ("import numpy", "-m mpi4py train.py", True),
        ("", "-m http.server", False),
    ],
)
def test_libraries_of_python_packages(python, text, words, hurts):
    Path("train.py").write_text(text)
    Path("model.py").write_text("import numpy\n")
    findings = told(f"{python} {words}", replace(EIGHT, quota=2.0))
    assert findings.keys() == ({"threads"} if hurts else set())


def test_a_distribution_that_was_left_without_a_name(python, here):
    (here / "venv" / "lib" / "python3.11" / "site-packages" / "left-1.0.dist-info").mkdir()
    findings = told(f"{python} -c 'import numpy, left'", replace(EIGHT, quota=2.0))
    assert findings.keys() == {"threads"}


def test_a_script_with_an_interpreter_of_its_own(python):
    Path("train").write_text(f"#!{python}\nimport numpy\n")
    Path("train").chmod(0o755)
    assert told("mpiexec -n 8 ./train")["threads"].startswith("8 threads of OpenBLAS in each of 8 ranks")


def test_a_system_package_without_a_list_of_files(python, here):
    folder = here / "usr" / "lib" / "python3" / "dist-packages"
    elf(folder / "blas" / "core.so", ["libopenblas.so.0"], runpath=str(here / "lib"))
    info = folder / "blas-1.0.egg-info"
    info.mkdir()
    (info / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: blas\nVersion: 1.0\n")
    (here / "usr" / "bin").mkdir()
    (here / "usr" / "bin" / "python3").write_text("")
    (here / "usr" / "bin" / "python3").chmod(0o755)
    assert told(f"{here}/usr/bin/python3 -c 'import blas'", replace(EIGHT, quota=2.0)).keys() == {"threads"}


def test_the_command_prints_a_line_each_and_its_status_says_whether_there_is_one(here, monkeypatch, capsys):
    program("app", "libgomp.so.1")
    monkeypatch.setattr(Host, "here", lambda processors: replace(EIGHT, quota=2.0))
    assert cli.main(["doctor", "--", "app"]) == 1
    assert (
        capsys.readouterr().out
        == "8 threads of OpenMP will spin on a quota of 2 processors: OMP_NUM_THREADS=2\n"
    )
    assert cli.main(["doctor", "--json", "--", "app"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["subject"] == "threads" and finding["remedy"] == "OMP_NUM_THREADS=2"
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert cli.main(["doctor", "--", "app"]) == 0
    assert capsys.readouterr().out == "Nothing is seen here that will hurt app.\n"
    for words in (["--"], ["--pid", "1", "--", "app"], ["--self-test", "--", "app"]):
        assert cli.main(["doctor", *words]) == 2
    assert not Path("started").exists()


ASKS = """
import os
from coordinator.host.rank_processes import RankProcesses
from harness.measure.command_check import Host
for ranks in (RankProcesses().look(1.0), Host.here([0]).ranks):
    print(any(os.getpid() in one.pids for one in ranks))
"""


@pytest.mark.slow
def test_a_rank_that_asks_is_no_rank_of_others(tmp_path):
    launcher = tmp_path / "mpiexec"
    launcher.write_text(f"#!/bin/sh\n{sys.executable} -c '{ASKS}'\ntrue\n")
    launcher.chmod(0o755)
    asked = subprocess.run([launcher], capture_output=True, text=True, check=True)
    assert asked.stdout == "True\nFalse\n"


@pytest.mark.slow
def test_this_host_is_looked_at(tmp_path, monkeypatch, capsys):
    """The affinity of this process, and the libraries of the real numpy."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1000")
    Path("train.py").write_text("import numpy\nopen('started', 'w')\n")
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert cli.main(["doctor", "--", sys.executable, "train.py"]) == 1
    finally:
        os.sched_setaffinity(0, before)
    assert "1000 threads of OpenBLAS will spin on " in capsys.readouterr().out
    assert not Path("started").exists()
