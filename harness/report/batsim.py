"""The jobs of a log as a workload of Batsim.

Source of the format: Batsim's pages "Workload" of versions 4.2 and 5.0; their names of profile types differ.
"""

import json
from collections import Counter
from typing import Any

from harness.predict.trace import Trace

DELAYS = {4: "delay", 5: "DelayProfile"}
"""By version of Batsim: the type of a profile that takes a time, however fast the machine is."""


def workload(log: Trace, processors: int, version: int) -> str:
    """The workload in JSON, for a machine with ``processors`` resources; times in seconds.

    A job has its recorded arrival, size and run time. Its limit is the recorded estimate, raised to the run
    time where that is longer; a job without an estimate has none. Repeated numbers of jobs get a suffix.
    """
    sizes = log.jobs.max_processes
    run_s = (log.jobs.times_ns(sizes) / 1e9).tolist()
    limits_s = (log.jobs.estimates_ns() / 1e9).tolist()
    seen = Counter[int]()
    jobs = []
    profiles: dict[str, dict[str, Any]] = {}
    for place, number in enumerate(log.numbers.tolist()):
        seen[number] += 1
        name = f"{run_s[place]:.15g}"
        profiles[name] = {"type": DELAYS[version], "delay": run_s[place]}
        job = {
            "id": f"{number}" if seen[number] == 1 else f"{number}.{seen[number]}",
            "subtime": float(log.jobs.submit_ns[place]) / 1e9,
            "res": int(sizes[place]),
            "profile": name,
        }
        known = log.recorded.asked_s[place] >= 0
        jobs.append(job | ({"walltime": limits_s[place]} if known else {}))
    about = f"for Batsim {version}"
    return json.dumps({"description": about, "nb_res": processors, "jobs": jobs, "profiles": profiles}) + "\n"
