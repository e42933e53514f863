"""A real Slurm on hosts that are emulated: munged and slurmctld on the head, a slurmd on each node.

All of it lives in the namespaces of ``emulated``, so nothing of it outlasts them: neither
daemons nor jobs, shared memory, addresses or mounts.
"""

import getpass
import os
import shlex
import shutil
import subprocess
from contextlib import contextmanager

import netns_cluster
from runs import eventually

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "munged")
PATH = "/usr/sbin:/usr/local/sbin"

CONFIGURATION = """
ClusterName=emulated
SlurmctldHost=head({head})
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={munge},cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobCompType=jobcomp/filetxt
JobCompLoc={root}/completed
ReturnToService=2
OverTimeLimit=0
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptMode=GANG
SchedulerTimeSlice={slot_s}
{more}
{nodes}
PartitionName=whole Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=gang Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""


def unavailable():
    """Why there can be no Slurm here; empty if there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=f"{PATH}:/usr/bin:/bin")]
    if missing:
        packages = "slurmctld slurmd slurm-client munge"
        return f"Slurm is not installed: no {', '.join(missing)} (apt-get install {packages})"
    return netns_cluster.unavailable()


class SlurmCluster:
    """Slurm on emulated hosts. Commands are started on the head, as on a login node.

    ``more`` are further lines of its configuration, where {munge} is the socket of munge. Before it starts,
    ``before`` is called with the cluster. Slurm believes that each host has so many ``processors``.
    """

    def __init__(self, hosts, slot_s, more="", before=None, processors=1):
        self.hosts = hosts
        self.root = hosts.root / "slurm"
        for folder in ("state", "spool", "munge"):
            (self.root / folder).mkdir(parents=True)
        self.munge = self.root / "munge" / "socket"
        names = "\n".join(f"NodeName={n.name} NodeAddr={n.address} CPUs={processors}" for n in hosts.nodes)
        text = CONFIGURATION.format(
            root=self.root,
            munge=self.munge,
            head=hosts.head.address,
            nodes=names,
            user=getpass.getuser(),
            slot_s=slot_s,
            more=more.format(munge=self.munge),
        )
        self.configuration = self.root / "slurm.conf"
        self.configuration.write_text(text)
        table = "".join(f"{host.address} {host.name}\n" for host in (hosts.head, *hosts.nodes))
        (self.root / "hosts").write_text("127.0.0.1 localhost\n" + table)
        # Not in the runtime directory of the login session, which a job knows nothing of.
        hosts.environment |= {"SLURM_CONF": str(self.configuration), "TMPDIR": str(hosts.root / "runtime")}
        for name in ("HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "HYDRA_IFACE"):
            del hosts.environment[name]
        for host in (hosts.head, *hosts.nodes):
            subprocess.run(host.enter("mount", "--bind", str(self.root / "hosts"), "/etc/hosts"), check=True)
        self._start_munge()
        if before:
            before(self)
        self.on(hosts.head, "slurmctld")
        for node in hosts.nodes:
            self.on(node, "slurmd", "-N", node.name)
        self.wait_for_nodes()

    def _start_munge(self):
        key = self.root / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        files = {"key-file": key, "socket": self.munge}
        files |= {f"{name}-file": self.root / "munge" / name for name in ("pid", "log", "seed")}
        self.on(self.hosts.head, "munged", "--force", *(f"--{name}={path}" for name, path in files.items()))

    def on(self, host, *argv):
        """Start a daemon, or carry out a command of root, on a host; its status must be 0."""
        settings = [f"SLURM_CONF={self.configuration}", f"PATH={PATH}:{os.environ['PATH']}"]
        command = host.command(["env", *settings, *argv])
        done = subprocess.run(
            command, env=self.hosts.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{argv[0]}: {done.stdout}{done.stderr}\n{self.logs()}"

    def wait_for_nodes(self):
        wanted = str(len(self.hosts.nodes))
        idle = ("sinfo", "-h", "-p", "whole", "-t", "idle", "-o", "%D")
        assert eventually(lambda: self.call(*idle).strip() == wanted, 60), self.logs()

    def call(self, *argv):
        """What a command on the head prints; its status must be 0."""
        done = self.hosts.start(argv)
        out, err = done.communicate(timeout=120)
        assert done.returncode == 0, f"{shlex.join(argv)}: {err}\n{out}"
        return out

    def logs(self):
        lines = [line for path in self.root.glob("*.log") for line in path.read_text().splitlines()]
        return "\n".join(
            line for line in lines if "fatal" in line or ("error" in line and "pmix" not in line)
        )


@contextmanager
def slurm_cluster(nodes, slot_s=5, more="", before=None, processors=1):
    """So many nodes under Slurm, with slots of its gang scheduling; afterwards nothing of them is left."""
    with netns_cluster.cluster(nodes) as hosts:
        yield SlurmCluster(hosts, slot_s, more, before, processors)
