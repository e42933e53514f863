"""Whether ranks of a command may start on other hosts, by its words, host files and an allocation."""

import os
import socket

import pytest

from coordinator.host.named_hosts import elsewhere

HERE = socket.gethostname()


@pytest.mark.parametrize(
    "words, others",
    [
        (["mpiexec", "-n", "4", "./app"], False),
        (["mpiexec", "-hosts", f"{HERE}:2,localhost", "-n", "2", "./app"], False),
        (["mpiexec", "-hosts", f"{HERE}:2,other:2", "./app"], True),
        (["mpirun", "-host", "other", "./app"], True),
        (["mpirun.openmpi", "-H", "other:3", "./app"], True),
        (["srun", "--nodelist=n[1-4]", "./app"], True),
        (["sh", "-c", "mpiexec -hosts a,b ./app && echo done"], True),
        (["sh", "-c", "echo 'not closed; mpiexec -hosts a ./app"], True),
        (["tar", "-f", "other", "-H", "other"], False),
        (["ctest"], False),
    ],
)
def test_options_of_launchers_name_hosts(words, others):
    assert elsewhere([["true"], words], {}) is others


@pytest.mark.parametrize(
    "lines, others",
    [("", False), (f"# other\n{HERE}:2\nlocalhost slots=2\n", False), ("other:2\n", True)],
)
def test_host_files_are_read(tmp_path, lines, others):
    file = tmp_path / "hosts"
    file.write_text(lines)
    for option in ("-f", "--hostfile", "-machinefile"):
        assert elsewhere([["mpiexec", option, str(file), "./app"]], {}) is others
    for variable in ("HYDRA_HOST_FILE", "PBS_NODEFILE"):
        assert elsewhere([["ctest"]], {variable: str(file)}) is others
    assert not elsewhere([["ctest"]], {"PBS_NODEFILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    "variables, others",
    [
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "1"}, False),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}, True),
        ({"LSB_HOSTS": f"{HERE} {HERE}"}, False),
        ({"LSB_HOSTS": f"{HERE} other"}, True),
    ],
)
def test_an_allocation_names_hosts(variables, others):
    assert elsewhere([["ctest"]], variables) is others


def test_a_pipe_of_hosts_is_left_to_the_launcher(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert elsewhere([["mpiexec", "-f", str(tmp_path / "pipe"), "./app"]], {})
    assert not elsewhere([["mpiexec", "-f", "/dev/zero", "./app"]], {})
