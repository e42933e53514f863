"""What a command is preloaded with reaches all its ranks, and no Lockstep inside it."""

import random
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native_programs import LOCKSTEP, launcher, losing, missing, recorded, run, two_phase

from coordinator.host.environment import undone
from coordinator.host.launchers import launched

NAMES = ["LD_PRELOAD", "LD_AUDIT", "LOCKSTEP_WAITING", "SLURM_EXPORT_ENV", "OMPI_MCA_mca_base_env_list"]
values = st.text("ab/=.;,: ", max_size=8)
environments = st.dictionaries(st.sampled_from([*NAMES, "PATH"]), values)


@given(
    environments, st.dictionaries(st.sampled_from(NAMES), values), st.sampled_from(["libopen-pal", "libc"])
)
def test_what_is_set_is_undone(before, variables, library):
    _, told = launched(["true"], variables, [library], before)
    assert (
        told.items() >= {name: value for name, value in variables.items() if name.startswith("LD_")}.items()
    )
    assert undone({**before, **told}) == before


@pytest.mark.parametrize("tool", ["/tool.so {}", "{} /tool.so", "{}:/tool.so", "/tool.so:{}"])
@pytest.mark.parametrize("before", [{}, {"LD_PRELOAD": "/old.so"}])
def test_what_a_script_adds_is_kept(before, tool):
    front = " ".join(["/preload.so", *before.values()])
    _, variables = launched(["true"], {"LD_PRELOAD": front}, [], before)
    left = undone({**variables, "LD_PRELOAD": tool.format(front)})["LD_PRELOAD"]
    assert sorted(re.findall(r"[^\s:]+", left)) == sorted([*before.values(), "/tool.so"])


JUNK = ["", "{", "[1]", '{"PATH": 3}', '{"PATH": null}', "[" * 100_000, '{"=": [null, "x"]}']
JUNK += [f'{{"HOME": ["/", {value}]}}' for value in (1, [], '"a\\u0000b"', '"\\ud800"')]


@pytest.mark.parametrize("junk", JUNK, ids=range(len(JUNK)))
def test_what_others_have_written_is_no_matter(junk):
    assert undone({"LOCKSTEP_UNDO": junk, "HOME": "/"}) == {"HOME": "/"}


SRUN = """#!/bin/sh
export=${SLURM_EXPORT_ENV-ALL}
while :; do case "$1" in
    --export=*) export=${1#*=}; shift;;
    --export) export=$2; shift 2;;
    *) break;;
esac; done
[ "$export" = ALL ] && exec "$@"
for name in $(echo "$export" | tr , ' '); do
    [ $name = NONE ] || set -- "$name=$(printenv $name)" "$@"
done
exec env -i "$@"
"""
"""As Slurm's: NONE and names leave out all else."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "words, there",
    [
        *((words, None) for words in (["--export=NONE"], ["--export", "OWN"], ["--export=ALL"])),
        *(([], there) for there in (None, "NONE", "OWN", "ALL")),
        (["--export=NONE"], "ALL"),
    ],
)
def test_srun_passes_on_what_ranks_need(tmp_path, words, there):
    launcher("here")
    srun = tmp_path / "srun"
    srun.write_text(SRUN)
    srun.chmod(0o755)
    extra = {"OWN": "1", "SECRET": "2"} | ({} if there is None else {"SLURM_EXPORT_ENV": there})
    result = run([*LOCKSTEP, "exec", "--", str(srun), *words, "/usr/bin/env"], extra=extra)
    got = dict(line.split("=", 1) for line in result.stdout.splitlines())
    assert got.keys() >= {"LD_PRELOAD", "LOCKSTEP_WAITING"}, result.stderr
    meant = words[-1].removeprefix("--export=") if words else there
    assert ("OWN" in got, "SECRET" in got) == (meant != "NONE", meant in (None, "ALL"))


@pytest.mark.slow
def test_an_exec_in_an_exec_wins_and_is_alone():
    argv = [
        *LOCKSTEP,
        *("exec", "--waiting", "immediate", "--", "sh", "-c"),
        'echo "$LD_PRELOAD|$LOCKSTEP_WAITING"',
    ]
    launcher("here")
    inner = two_phase(argv)
    alone = run(argv)
    assert inner.stdout == alone.stdout and alone.stdout.count("preload.so") == 1


@pytest.mark.slow
def test_as_it_is_is_measured_without_an_exec_around(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen = tmp_path / "seen"
    rank = f'echo "$LD_PRELOAD$LOCKSTEP_WAITING" >> {seen}; exec {sys.executable} -c "from mpi4py import MPI"'
    program = [*launcher("here"), "-n", "1", "sh", "-c", rank]
    words = ["tune", "--no-wait", "--rounds", "1", "--jobs", "1", "--only", "as it is", "--", *program]
    result = two_phase([*LOCKSTEP, *words])
    assert result.returncode == 0, result.stderr
    assert set(seen.read_text().split("\n")) == {""}


ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OVER_TCP = {
    **{"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self"},
    **{f"{owner}_if_include": "10.119.0.0/24" for owner in ("OMPI_MCA_oob_tcp", "OMPI_MCA_btl_tcp")},
    **{f"{owner}_tcp_if_include": "10.119.0.0/24" for owner in ("PMIX_MCA_ptl", "PRTE_MCA_oob")},
}
MPICH = ["-genv", "MPICH_CH4_NETMOD", "ofi", "-genv", "FI_PROVIDER", "tcp"]


@pytest.mark.parametrize(
    "mpi, words, extra",
    [("openmpi", ["-x", "HOME"], {}), ("here", ["-genvnone"], {}), ("here", [], {"HYDRA_ENV": "none"})],
)
def test_ranks_on_other_hosts_have_the_library(hosts, compiled, tmp_path, mpi, words, extra):
    """Their ssh passes nothing on, and the first host has no rank."""
    program = [compiled(mpi, "bsp.c"), "100", ".25", "50"]
    status, err = between_hosts(hosts, mpi, [*words], extra, program, ["--record", str(tmp_path)])
    records = recorded(tmp_path)
    assert status == 0 and sorted(one.rank for one in records) == [0, 1], err
    assert {one.host for one in records} == {"node1", "node2"}


@pytest.mark.parametrize("mpi", ["openmpi", "here"])
def test_a_host_without_the_library_makes_all_wait_as_mpi_does(hosts, compiled, mpi):
    check_partly(hosts, compiled, mpi, {2, 3})


@pytest.mark.soak
@pytest.mark.parametrize("mpi", ["openmpi", "here"])
def test_fifty_jobs_between_hosts_with_random_ranks_without_the_library_all_end(hosts, compiled, mpi):
    draw = random.Random(14)
    for _ in range(50):
        check_partly(hosts, compiled, mpi, {rank for rank in range(4) if draw.random() < 0.3})


def check_partly(hosts, compiled, mpi, lacking):
    """Two ranks on each of two hosts."""
    program = losing(lacking, [compiled(mpi, "bsp.c"), "100", ".25", "50"])
    status, err = between_hosts(hosts, mpi, [], {}, program, [], ranks=4)
    assert status == 0, err
    assert missing(err, 4) == ([lacking] if 0 < len(lacking) < 4 else []), err


def between_hosts(hosts, mpi, words, extra, program, options, ranks=2):
    """The status of a program on ranks on all hosts under ``lockstep exec``, and what is on stderr."""
    start = launcher(mpi)
    of_openmpi = "Open" in run([start[0], "--version"]).stdout
    if of_openmpi and mpi == "here" and words + list(extra):
        pytest.skip("these are of MPICH's launcher")
    each = ranks // len(hosts.hosts)
    at = [f"{host}:{each}" if of_openmpi else host for host in hosts.hosts]
    where = ["--host", ",".join(at)] if of_openmpi else ["-ppn", str(each), "-hosts", ",".join(at)]
    argv = [*start, *words, *([] if of_openmpi else MPICH), *where, "-n", str(ranks), *program]
    shells = {name: str(hosts.root / "ssh") for name in ("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent")}
    before = dict(hosts.environment)
    hosts.environment.update(ROOT | OVER_TCP | shells | extra)
    try:
        with hosts.start([*LOCKSTEP, "exec", *options, "--", *argv]) as process:
            _, err = process.communicate(timeout=60)
    finally:
        hosts.environment.clear()
        hosts.environment.update(before)
    return process.returncode, err
