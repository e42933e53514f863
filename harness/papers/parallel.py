"""Independent parts of a reproduction, on all processors of this process."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from harness.papers import Progress

Key = TypeVar("Key")
Value = TypeVar("Value")


def compute(parts: Sequence[Key], work: Callable[[Key], Value], progress: Progress) -> dict[Key, Value]:
    """``work`` of every part, by part, in their order; threads, since kernels hold no interpreter lock."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        tasks = {pool.submit(work, part): part for part in parts}
        try:
            for done, task in enumerate(as_completed(tasks), 1):
                task.result()
                progress(done, len(parts))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return {part: task.result() for task, part in tasks.items()}
