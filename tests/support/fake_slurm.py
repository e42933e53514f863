"""Slurm's commands as scripts that make up a cluster: each job waits 2 s and runs 5 s by its accounts."""

from fake_commands import fake_commands

CONFIGURATION = "AccountingStorageType   = accounting_storage/slurmdbd"
WAIT_S, RUN_S = 2, 5


def fake_slurm(folder, *, size=2, configuration=CONFIGURATION, state="COMPLETED"):
    """Write the commands into ``folder``; returns the PATH that finds them, and ``sleep`` that takes no time.

    ``folder/asked`` gets a line for each job that is submitted or cancelled.
    """
    folder.mkdir()
    jobs = f"""for file in {folder}/job-*; do
    id=${{file##*-}}; submit=$((1000000 + 100 * id))
    echo "$id|{state}|$submit|$((submit + {WAIT_S}))|$((submit + {WAIT_S + RUN_S}))"
    echo "$id.batch|{state}|1|1|1"
done"""
    return fake_commands(
        folder,
        sbatch=f'id=$(ls {folder}/job-* 2> /dev/null | wc -l); id=$((id + 1)); cp "$2" {folder}/job-$id\n'
        f'echo "sbatch $id" >> {folder}/asked; echo "Welcome"; echo $id',
        sacct=f'[ "$SLURM_TIME_FORMAT" = %s ] || exit 0\n{jobs}',
        sinfo=f"echo 'short*|1/{size - 1}/0/{size}'; echo 'long|0/64/3/67'",
        scontrol=f"echo '{configuration}'",
        srun="echo 'srun: MPI types are...'; echo 'srun: pmi2 pmix' >&2",
        scancel=f'echo "scancel $*" >> {folder}/asked',
        squeue="exit 0",
        sleep="exit 0",
    )
