"""Finished runs that the store could not take: files alongside it, which the next invocation takes in."""

import dataclasses
import errno
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from coordinator.workload import Switch
from harness.store.records import JobRecord, RunRecord, plain, typed
from workloads.record import RankResult

SCHEMA = 1
RESERVE_BYTES = 4 << 20
"""Room that is kept for one run while a store is open, so that a full disk does not lose it."""

OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Spool:
    """The files alongside one store; to ``reserve`` keeps room for a run on the disk while runs are made."""

    def __init__(self, store: Path, *, reserve: bool = False) -> None:
        self._store = store
        self._reserve = _reserve(store.parent) if reserve else None

    def close(self) -> None:
        if self._reserve:
            self._reserve.close()
        self._reserve = None

    def keep(self, record: RunRecord) -> Path:
        """Write a run to a new file on the disk, whole or not at all; returns its path."""
        content = _plain(record)
        data = json.dumps({**content, "sha256": _checksum(content)}).encode()
        try:
            return self._written(data)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or self._reserve is None:
                raise
        self.close()
        return self._written(data)

    def _written(self, data: bytes) -> Path:
        name = f"{self._store.name}.{secrets.token_hex(8)}.run.json"
        path = self._store.with_name(name)
        part = self._store.with_name(f"{name}.part")
        try:
            with os.fdopen(os.open(part, OPEN, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # brings the name to the disk; not every file system can
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return path

    def waiting(self) -> list[Path]:
        """The files that no invocation has taken in yet."""
        try:
            return sorted(self._store.parent.glob(f"{self._store.name}.*.run.json"))
        except OSError:
            return []


def read(path: Path) -> RunRecord:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        content = json.load(file)
    if content["schema"] != SCHEMA:
        raise ValueError(f"found schema {content['schema']!r}, required {SCHEMA}")
    if content["sha256"] != _checksum(content):
        raise ValueError("it is not as it was written")
    fields = typed(content["run"]) | {
        "jobs": tuple(JobRecord(**job) for job in content["jobs"]),
        "ranks": tuple(map(RankResult.of_record, content["ranks"])),
        "switches": tuple(Switch(*switch) for switch in content["switches"]),
    }
    return RunRecord(**fields)


def _plain(record: RunRecord) -> Mapping[str, Any]:
    return {
        "schema": SCHEMA,
        "run": plain(record, "jobs", "ranks", "switches", "id"),
        "jobs": [dataclasses.asdict(job) for job in record.jobs],
        "ranks": [rank.recorded() for rank in record.ranks],
        "switches": [dataclasses.astuple(switch) for switch in record.switches],
    }


def _checksum(content: Mapping[str, Any]) -> str:
    """SHA-256 over all but the checksum itself."""
    fields = {name: content[name] for name in ("schema", "run", "jobs", "ranks", "switches")}
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()


def _reserve(folder: Path) -> IO[bytes] | None:
    """A file without a name that has RESERVE_BYTES of the disk; None where there is no room."""
    file = None
    try:
        file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - open as long as the store
        os.posix_fallocate(file.fileno(), 0, RESERVE_BYTES)
    except OSError:
        if file:
            file.close()
        return None
    return file
