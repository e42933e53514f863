"""The ssh of emulated hosts (``netns_cluster``): ``python netns_ssh.py HOST COMMAND...``.

A run across hosts starts it about ten times, so it imports little.
"""

import json
import os
import socket
import sys

HEAD = 254
"""The last number in the address of the head."""

SOCKETS = "EMULATED_HOSTS"
"""Variable that names the directory with the hosts' sockets."""


def ssh(words):
    """Run a command on a host; returns its status. Options before the host are ignored."""
    while words[0].startswith("-"):
        words.pop(0)
    host, *command = words
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(f"{os.environ[SOCKETS]}/{host}")
        # As with the real one the environment stays behind, but for what brings one to the head.
        names = os.environ if host.endswith(f".{HEAD}") else ("PATH", "HOME")
        request = {
            "command": " ".join(command),
            "directory": os.getcwd(),  # noqa: PTH109 - pathlib takes long to import
            "environment": {name: os.environ[name] for name in names},
        }
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        return (server.recv(1) or b"\xff")[0]


if __name__ == "__main__":
    sys.exit(ssh(sys.argv[1:]))
