"""The model of Lublin and Feitelson job by job, in plain Python, for comparisons: nothing of the product.

Half hours are paid for in points: each costs its share of the day's jobs, and the time between two arrivals
says how many points are there.
"""

import math

from scipy.stats import gamma

SIZES = {  # shares: serial, power of two; log2: lowest, middle, highest at 128 processors; share up to middle
    "batch": (0.2927, 0.6686, 1.2, 5.0, 7.0, 0.875),
    "interactive": (0.1541, 0.625, 1.0, 3.0, 5.5, 0.705),
    "all": (0.244, 0.576, 0.8, 4.5, 7.0, 0.86),
}
RUNS = {
    "batch": (6.57, 0.823, 639.1, 0.0156, -0.003, 0.6986),
    "interactive": (3.8351, 0.6605, 7.073, 0.6856, -0.0118, 0.9156),
    "all": (4.2, 0.94, 312, 0.03, -0.0054, 0.78),
}
ARRIVALS = {
    "batch": (6.0415 * 1.0519, 0.8531, 6.1271, 5.2740),
    "interactive": (6.5510 * 0.9797, 0.6621, 8.9186, 3.6680),
    "all": (10.2303 * 1.0225, 0.4871, 8.1737, 3.9631),
}


def size(name, chance):
    """The size of a job on a machine of 128 processors; ``chance`` is a ``random.Random``."""
    serial, power, low, middle, high, share = SIZES[name]
    kind = chance.random()
    if kind < serial:
        return 1
    ends = (low, middle) if chance.random() < share else (middle, high)
    exponent = chance.uniform(*ends)
    if kind < serial + power:
        return 2 ** int(exponent + 0.5)
    return int(2**exponent + 0.5)


def run_s(name, processors, chance):
    """The run time of a job of this size."""
    a1, b1, a2, b2, slope, base = RUNS[name]
    while True:
        first = chance.random() < slope * processors + base
        logarithm = chance.gammavariate(a1, b1) if first else chance.gammavariate(a2, b2)
        if logarithm <= 12:
            return math.exp(logarithm)


def costs(name):
    """The points of each half hour of the day, 1 in the mean; by the distribution function."""
    *_, shape, scale = ARRIVALS[name]
    points = [0.0] * 48
    for number in range(11, 59):
        ends = gamma.cdf([number - 0.5, number + 0.5], shape, scale=scale)
        points[(number - 1) % 48] = ends[1] - ends[0]
    return [one * 48 / sum(points) for one in points]


def arrivals_s(name, count, chance):
    """The times of ``count`` arrivals after midnight."""
    shape, scale, *_ = ARRIVALS[name]
    cost = costs(name)
    half_hour, rest = (
        0,
        0.0,
    )  # half hours that are over, and the paid share of the present one
    times_s = []
    while len(times_s) < count:
        logarithm = chance.gammavariate(shape, scale)
        if logarithm > 13:
            continue
        points = math.exp(logarithm) / 1800 + rest * cost[half_hour % 48]
        while points > cost[half_hour % 48]:
            points -= cost[half_hour % 48]
            half_hour += 1
        rest = points / cost[half_hour % 48]
        times_s.append(1800 * (half_hour + rest))
    return times_s
