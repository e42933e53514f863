"""Caches: who ran on a processor last, the latest first, as far as their working sets fit."""


class Cache:
    def __init__(self, machine):
        self.bytes = round(machine.cache_kb * 1024)
        self.cache_reload_ns = round(machine.cache_reload_us * 1e3)
        self.latest = []

    def missing(self, process):
        """The part of the process's set that it has to load, in bytes; from now on it is there."""
        size = process.job.program.working_set_bytes
        before = self.latest
        self.latest = [process, *(other for other in before if other is not process)]
        if not size or not self.bytes:
            return 0
        away = process.cache is not self
        process.cache = self
        if away:
            return min(size, self.bytes)
        others = sum(other.job.program.working_set_bytes for other in before[: before.index(process)])
        return min(size, self.bytes, max(0, others + size - self.bytes)) if others else 0

    def load_ns(self, process):
        missing = self.missing(process)
        return int(missing / self.bytes * self.cache_reload_ns) if missing else 0
