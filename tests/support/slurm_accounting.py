"""Slurm's accounting for an emulated cluster: a database and slurmdbd on its head."""

import getpass
import shutil

from runs import eventually
from slurm_cluster import PATH

PROGRAMS = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")
PORT = 33_306

CONFIGURATION = """
AuthType=auth/munge
AuthInfo=socket={munge}
DbdHost=head
SlurmUser={user}
PidFile={root}/slurmdbd.pid
LogFile={root}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={port}
StorageUser=slurm
StorageLoc=slurm_acct_db
"""

OF_SLURM = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=head
AccountingStoragePass={munge}
AccountingStorageEnforce=associations,limits,qos
"""
"""Lines of slurm.conf."""


def unavailable():
    """Why there can be no accounting here; empty if there can."""
    missing = [name for name in PROGRAMS if not shutil.which(name, path=f"{PATH}:/usr/bin:/bin")]
    packages = "slurmdbd mariadb-server"
    return f"no {', '.join(missing)} (apt-get install {packages})" if missing else ""


def started(*commands):
    """What starts the accounting of a cluster (``slurm_cluster``), and tells sacctmgr these ``commands``."""

    def before(cluster):
        head, root = cluster.hosts.head, cluster.root
        data = root / "database"
        where = (f"--datadir={data}", "--no-defaults")
        cluster.on(head, "mariadb-install-db", where[1], where[0], "--skip-test-db")
        script = root / "users.sql"
        script.write_text("CREATE USER slurm@'%';\nGRANT ALL ON *.* TO slurm@'%';\n")
        network = ("--bind-address=127.0.0.1", f"--port={PORT}", f"--socket={root}/database.sock")
        options = (*where[::-1], *network, f"--user={getpass.getuser()}", f"--init-file={script}")
        small = ("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--skip-log-bin")
        words = " ".join(("mariadbd", *options, *small, f"> {root}/database.log 2>&1 &"))
        cluster.on(head, "sh", "-c", words)
        assert eventually((root / "database.sock").exists, 60), (root / "database.log").read_text()
        configuration = root / "slurmdbd.conf"
        configuration.touch(mode=0o600)
        text = CONFIGURATION.format(munge=cluster.munge, user=getpass.getuser(), root=root, port=PORT)
        configuration.write_text(text)
        cluster.on(head, "slurmdbd")
        listening = ("sh", "-c", "ss -ltn | grep -q ':6819 ' && echo yes || true")
        assert eventually(lambda: cluster.call(*listening).strip() == "yes", 60), cluster.logs()
        for command in commands:
            cluster.on(head, "sacctmgr", "-i", *command.split())

    return before
