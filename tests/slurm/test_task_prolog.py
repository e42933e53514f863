"""The TaskProlog: which tasks get the library, and ranks that a real Slurm has started with it."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from native_programs import LOCKSTEP, recorded, run, wrapper
from runs import eventually, text
from slurm_cluster import slurm_cluster, unavailable

from coordinator.host.environment import undone
from slurm import task_prolog

CROWDED = {
    **{"SLURM_STEP_NUM_TASKS": "4", "SLURM_CPUS_ON_NODE": "2", "SLURM_STEP_NUM_NODES": "1"},
    "SLURM_JOB_PARTITION": "debug",
}
VARIABLES = {"LOCKSTEP_WAITING": "5,1,2,3", "LOCKSTEP_UNDO": '{"it\'s": ["$HOME", null]}'}


@pytest.fixture
def script(tmp_path):
    """Writes a script, with these partitions in its lists."""
    (tmp_path / "preload.so").touch()

    def write(**lists):
        written = task_prolog.text(tmp_path / "preload.so", VARIABLES)
        for name, value in lists.items():
            assert f'\n{name}=""\n' in written
            written = written.replace(f'\n{name}=""\n', f'\n{name}="{value}"\n')
        file = tmp_path / "task-prolog"
        file.write_text(written)
        file.chmod(0o755)
        return file

    return write


def printed(file, shell="/bin/sh", **changes):
    """What the script sets for a task; it says nothing else, and does not fail."""
    around = {name: value for name, value in (CROWDED | changes).items() if value is not None}
    done = subprocess.run([shell, str(file)], env=around, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert all(line.startswith("export ") for line in lines)
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


@pytest.mark.parametrize("shell", ["/bin/sh", "bash"])
def test_tasks_that_outnumber_the_processors_get_the_library(script, shell):
    file = script()
    assert printed(file, shell) == {"LD_PRELOAD": str(file.with_name("preload.so")), **VARIABLES}


def test_what_the_user_preloads_stays(script):
    file = script()
    assert (
        printed(file, LD_PRELOAD="libm.so.6:libc.so.6")["LD_PRELOAD"]
        == f"{file.parent}/preload.so libm.so.6:libc.so.6"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_CPUS_ON_NODE": "4"},
        {"SLURM_CPUS_ON_NODE": "5"},
        {"SLURM_STEP_NUM_TASKS": "1", "SLURM_CPUS_ON_NODE": "0"},
        {"LOCKSTEP_TASK_PROLOG": "no"},
        {"LOCKSTEP_WAITING": "0,0,0,0"},
        {"SLURM_STEP_NUM_NODES": "2"},
        {"SLURM_HET_SIZE": "2"},
        *({name: None} for name in CROWDED if name != "SLURM_JOB_PARTITION"),
        *({name: ""} for name in CROWDED if name != "SLURM_JOB_PARTITION"),
        *({"SLURM_STEP_NUM_TASKS": bad} for bad in ("4(x2)", "-3", "four", "4 4", "*", "9" * 30, "$(id)")),
        *({"SLURM_CPUS_ON_NODE": bad} for bad in ("1(x2)", "-1", "two", "1 1", "*", "9" * 30, "08x")),
    ],
    ids=str,
)
def test_other_tasks_get_nothing(script, changes):
    assert printed(script(), **changes) == {}


def test_without_its_library_it_does_nothing(script):
    file = script()
    file.with_name("preload.so").unlink()
    assert printed(file) == {}


@pytest.mark.parametrize("partition", ["debug", "teach", "teach*", "", None])
def test_the_lists_of_partitions_are_kept(script, partition):
    fits = {"SLURM_CPUS_ON_NODE": "8", "SLURM_JOB_PARTITION": partition}
    assert printed(script(), **fits) == {}
    assert bool(printed(script(shared="debug other"), **fits)) == (partition == "debug")
    crowded = {"SLURM_JOB_PARTITION": partition}
    assert bool(printed(script(partitions="other debug"), **crowded)) == (partition == "debug")
    assert bool(printed(script(partitions=""), **crowded))


def written(folder, *options):
    return run([*LOCKSTEP, "exec", "--mpicc", str(wrapper("here")), "--task-prolog", str(folder), *options])


def test_the_command_writes_a_script_with_a_library_that_all_users_may_read(tmp_path):
    folder = tmp_path / "lockstep"
    result = written(folder, "--waiting", "immediate")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"TaskProlog={folder}/task-prolog\n"
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {
        **{"preload.so": 0o644, "wrappers.so": 0o644, "task-prolog": 0o755},
    }
    got = printed(folder / "task-prolog", LD_PRELOAD="libm.so.6")
    assert got["LD_PRELOAD"] == f"{folder}/preload.so libm.so.6"
    assert got["LOCKSTEP_WAITING"].startswith("1,") and got["LOCKSTEP_MEETING"] == "1"
    assert undone(got) == {"LD_PRELOAD": "libm.so.6"}  # so a lockstep in the task begins without it
    again = written(folder)
    assert again.returncode == 2 and "file exists" in again.stderr
    odd = written(tmp_path / "with space")
    assert odd.returncode == 2 and f"--task-prolog = '{tmp_path}/with space': has a character" in odd.stderr
    assert written(tmp_path / "a b").returncode == 2
    with_command = written(tmp_path / "other", "--", "true")
    assert with_command.returncode == 2 and not (tmp_path / "other").exists()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A node with the TaskProlog. Slurm believes that it has two processors; its ranks share one."""
    if reason := unavailable():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("prolog") / "lockstep"
    result = written(folder, "--waiting", "immediate")
    assert result.returncode == 0, result.stderr
    for place in (folder.parent, *folder.parent.parents[:2]):
        place.chmod(0o755)
    with slurm_cluster(1, more=result.stdout, processors=2) as nodes:
        yield nodes


LOOP = ("1000", ".25", "300")


def step(cluster, *words, ranks=4, **variables):
    """Start a step of so many ranks in an allocation of two processors."""
    told = [f"{name}={value}" for name, value in variables.items()]
    command = ["salloc", "-n", "2", "srun", "-n", str(ranks), "-O", "--mpi=pmi2", *words]
    return cluster.hosts.start(["env", *told, *command])


def ended(process):
    out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err
    return out, err


@pytest.mark.slurm
@pytest.mark.slow
def test_ranks_that_slurm_starts_on_too_few_processors_wait_two_phase(cluster, compiled, tmp_path):
    program = compiled("here", "bsp.c")
    with_it, _ = ended(step(cluster, program, *LOOP, LOCKSTEP_RECORD=tmp_path))
    ranks = recorded(tmp_path)
    assert sorted(one.rank for one in ranks) == [0, 1, 2, 3]
    assert all(sum(kind.spun + kind.blocked for kind in one.waits.kinds) >= int(LOOP[2]) for one in ranks)
    without, _ = ended(step(cluster, program, *LOOP, LOCKSTEP_TASK_PROLOG="no"))
    took_s, unmodified_s = (float(out.split()[0]) for out in (with_it, without))
    print(f"4 ranks on one processor: {took_s} s with the TaskProlog, {unmodified_s} s without")
    assert took_s < unmodified_s
    assert len(recorded(tmp_path)) == 4


@pytest.mark.slurm
@pytest.mark.slow
def test_steps_that_fit_are_left_alone(cluster, compiled, tmp_path):
    out, _ = ended(step(cluster, "env", ranks=2))
    assert "LOCKSTEP" not in out and "LD_PRELOAD" not in out
    out, _ = ended(step(cluster, "env", ranks=3))
    assert out.count("LOCKSTEP_MEETING=1\n") == 3


@pytest.mark.slurm
@pytest.mark.slow
def test_ranks_without_the_library_make_all_wait_as_mpi_does(cluster, compiled, tmp_path):
    mixed = 'if [ "$SLURM_PROCID" = 2 ]; then unset LD_PRELOAD; fi; exec "$@"'
    words = ["sh", "-c", mixed, "sh", compiled("here", "bsp.c"), "500", ".25", "20"]
    out, err = ended(step(cluster, *words, LOCKSTEP_RECORD=tmp_path))
    assert out.split()[1] == "80"
    assert "3 of the 4 ranks of this job" in err
    assert not [*tmp_path.iterdir()]


def ranks_of(cluster, program):
    """Pids of the ranks that have begun: the library has removed the name of MPI's memory."""
    name = Path(program).name[:15]
    found = [pid for pid in cluster.hosts.processes() if text(f"/proc/{pid}/comm").strip() == name]
    return [pid for pid in found if re.search(r"mpich_shm_\S+ \(deleted\)", text(f"/proc/{pid}/maps"))]


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 3])
def test_a_rank_that_is_killed_leaves_nothing(cluster, compiled, number):
    """Slurm ends the other ranks, and the kernel the memory."""
    program = compiled("here", "bsp.c")
    process = step(cluster, "--kill-on-bad-exit=1", program, "500", ".25", "1000000")
    assert eventually(lambda: len(ranks_of(cluster, program)) == 4)
    for pid in sorted(ranks_of(cluster, program))[number : number + 1]:
        os.kill(pid, signal.SIGKILL)
    process.communicate(timeout=100)
    assert process.returncode != 0
    assert eventually(lambda: not ranks_of(cluster, program), 30)
    assert eventually(lambda: not cluster.hosts.files(), 5), cluster.hosts.files()
