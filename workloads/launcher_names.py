"""Names by which launchers of MPI programs are told, wherever their classes are not loaded or out of reach.

``coordinator.host.launchers`` has a class for each kind, which finds them and writes their command lines.
"""

OF_MPIS = ("mpiexec", "mpirun", "orterun", "prterun")
"""Launchers that come with an MPI, whose compiler wrapper is in the same directory."""

PROXIES = ("hydra_pmi_proxy", "prted", "orted")
"""Their proxies, which start the ranks on each node."""

ALL = (*OF_MPIS, "srun", "prte", *PROXIES)
"""The kernel's names of launchers and proxies, up to a point: mpirun.openmpi."""

RANK_VARIABLES = (
    *("PMI_", "PMI2_", "PMIX_", "HYDI_", "HYDRA_PROXY", "HYDRA_LAUNCHER_EXTRA", "MPI_LOCAL"),
    *("OMPI_COMM", "OMPI_UNIVERSE_SIZE", "OMPI_FILE_LOCATION", "OMPI_APP_CTX_", "OMPI_NUM_APP_CTX"),
    *("OMPI_FIRST_RANKS", "OMPI_ARGV", "OMPI_MCA_ess", "OMPI_MCA_pmix", "OMPI_MCA_initial_wdir"),
    *(f"OMPI_MCA_orte_{part}" for part in ("app_num", "bound_at", "ess_", "hnp_uri", "jobfam", "launch")),
    *(f"OMPI_MCA_orte_{part}" for part in ("local_daemon", "num_nodes", "precondition", "tmpdir", "top_")),
    *("OMPI_MCA_mpi_oversubscribe", "OMPI_MCA_shmem_RUNTIME", "PRTE_LAUNCHED"),
    *("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_STEP"),
    *("SLURM_SRUN_", "SLURM_LAUNCH_NODE", "SLURM_PMI", "SLURM_MPI_TYPE", "SLURM_CPU_BIND", "SLURM_DISTRIB"),
    *("MV2_COMM", "PALS_", "ALPS_APP_", "FLUX_TASK_"),
)
"""How variables begin that a launcher sets for its ranks: of the job around us, not of the jobs we start."""
