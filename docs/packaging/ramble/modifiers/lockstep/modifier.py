"""A modifier of Ramble: the MPI programs of an experiment run under ``lockstep exec``."""

from ramble.modkit import *  # noqa: F403


class Lockstep(BasicModifier):  # noqa: F405
    """Two-phase waits for MPI programs whose ranks outnumber the processors."""

    name = "lockstep"

    tags("mpi", "oversubscription")  # noqa: F405

    mode("exec", description="The waits of MPI programs are two-phase")  # noqa: F405
    default_mode("exec")  # noqa: F405

    variable_modification("mpi_command", "lockstep exec --", method="prepend", modes=["exec"])  # noqa: F405

    last_line = (
        r"two-phase waits: (?P<ranks>\d+) ranks?, (?P<waits>\d+) waits?, (?P<blocked>[\d.]+) % blocked, "
        r"(?P<given_back>[\d.]+) s of CPU time given back \(used: (?P<used>[\d.]+) s\)"
    )

    for figure, unit in (("ranks", ""), ("waits", ""), ("blocked", "%"), ("given_back", "s"), ("used", "s")):
        figure_of_merit(f"lockstep {figure}", fom_regex=last_line, group_name=figure, units=unit)  # noqa: F405
