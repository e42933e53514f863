"""Messages of MPI survive that all ranks are stopped for seconds, in shared memory and over TCP."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from native_programs import launcher

pytestmark = pytest.mark.slow
STOPPED_S = 1.0
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OVER = {
    "shared memory": {},
    "TCP": {
        "MPIR_CVAR_NOLOCAL": "1",
        "UCX_TLS": "tcp,self",
        "FI_PROVIDER": "tcp",
        "OMPI_MCA_pml": "ob1",
        "OMPI_MCA_btl": "self,tcp",
    },
}


def ranks_of(started, program, transport):
    """The two ranks, when both compute; over TCP they are connected then, else they are not."""
    while started.poll() is None:
        with suppress(psutil.Error):  # helpers of a launcher come and go
            below = psutil.Process(started.pid).children(recursive=True)
            ranks = [process for process in below if process.name() == Path(program).name]
            computing = len(ranks) == 2 and all(sum(rank.cpu_times()[:2]) > 0.3 for rank in ranks)
            if computing and connected(ranks) == (transport == "TCP"):
                return ranks
        time.sleep(0.05)
    pytest.fail(f"not so before its end: {started.stdout.read()}")


def connected(ranks):
    """Whether there is a connection of one rank to the other."""
    ends = [{(one.laddr, one.raddr) for one in rank.net_connections("inet") if one.raddr} for rank in ranks]
    return any((there, here) in ends[1] for here, there in ends[0])


@pytest.mark.parametrize("mpi, transport", [("here", "TCP"), ("openmpi", "shared memory")])
def test_a_program_that_was_stopped_goes_on(mpi, transport, compiled):
    program = compiled(mpi, "bsp.c")
    argv = [*launcher(mpi), "-n", "2", program, "20000", ".25", "40"]
    environment = os.environ | AS_ROOT | OVER[transport]
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True) as started:
        ranks = ranks_of(started, program, transport)
        try:
            for rank in ranks:
                rank.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_S)
            assert {rank.status() for rank in ranks} == {psutil.STATUS_STOPPED}
        finally:
            for rank in ranks:
                rank.send_signal(signal.SIGCONT)
        output, _ = started.communicate(timeout=240)
    spent, total = output.split()
    assert (started.returncode, total) == (0, "80")
    assert float(spent) > STOPPED_S
