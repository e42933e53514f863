"""The jobs of one replication, drawn from a model of ``harness.spec.job_models``."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from harness.simulator.jobs import lublin
from harness.simulator.jobs.arrivals import gaps_s, hyperexponential, in_ns, moldable
from harness.simulator.jobs.model import Jobs, rigid
from harness.spec.job_models import JobModel, LublinModel, SevcikModel


def draw(model: JobModel, processors: int, random: np.random.Generator, lost: int = 0) -> Jobs:
    """The jobs of one replication, none larger than what is left; the load refers to all processors."""
    return DRAWN[type(model)](model, processors, random, lost)


def _of_lublin(model: LublinModel, processors: int, random: np.random.Generator, lost: int) -> Jobs:
    busy = processors * model.load if model.load else None
    drawn = lublin.draw(model.classes, model.count, processors - lost, random, busy)
    return rigid(in_ns(drawn.submit_s), drawn.sizes, in_ns(drawn.run_s))


def _of_sevcik(model: SevcikModel, processors: int, random: np.random.Generator, lost: int) -> Jobs:
    most = np.minimum(random.choice(np.asarray(model.maxima), model.count), processors - lost)
    mu = random.choice(np.asarray(model.mu, dtype=float), model.count)
    work_s = hyperexponential(model.count, model.shares, model.means_s, random)
    base = moldable(np.zeros(model.count), most, work_s, mu)
    if model.rigid:
        base = replace(base, min_processes=most)
    demand_s = base.times_s(most) * most if model.rigid else base.demand_s
    gap_s = float(demand_s.mean()) / (processors * model.load)
    between = gaps_s(model.arrivals, model.count, gap_s, random, cv=model.cv, unit_s=gap_s / 1000)
    return replace(base, submit_ns=in_ns(np.cumsum(between)))


DRAWN: Mapping[type[JobModel], Callable[..., Jobs]] = {SevcikModel: _of_sevcik, LublinModel: _of_lublin}
"""What draws the jobs of each of ``harness.spec.job_models.KINDS``."""
