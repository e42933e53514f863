"""Those who connect to a run across hosts without being part of it change nothing in it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import SUPPORT
from runs import eventually

pytestmark = pytest.mark.slow

LISTENING = "0A"


def listening(host):
    """Addresses and ports at which a host listens."""
    lines = Path(f"/proc/{host.init}/net/tcp").read_text().splitlines()[1:]
    found = [line.split()[1].split(":") for line in lines if line.split()[3] == LISTENING]
    return [(".".join(str(byte) for byte in bytes.fromhex(ip)[::-1]), int(port, 16)) for ip, port in found]


def test_a_crowd_at_the_drivers_door_changes_nothing(hosts):
    options = {"hosts": hosts.hosts, "policy": "gang", "mechanism": "signals", "phases": 3000}
    limited = ["prlimit", "--nofile=1024:1024", sys.executable, str(SUPPORT / "runs.py"), json.dumps(options)]
    run = hosts.start(limited)
    doors = eventually(lambda: [door for door in listening(hosts.head) if door[0] == hosts.head.address], 30)
    attackers = [
        subprocess.Popen(
            host.command([sys.executable, str(SUPPORT / "attack.py"), address, str(port), "1100"]),
            env=hosts.environment,
            stdout=subprocess.DEVNULL,
        )
        for host in hosts.nodes[:1]
        for address, port in doors
    ]
    assert attackers
    out, err = run.communicate(timeout=100)
    for attacker in attackers:
        attacker.kill()
        attacker.wait()
    told = json.loads(out)
    assert told["failure"] == "", err
