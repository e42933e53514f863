"""Published values of Dusseau, Arpaci, Culler 1996, as far as they are at hand."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

IMMEDIATE: Mapping[str, NDArray[np.float64]] = {
    "BARRIER": np.array(
        [
            [1.05, 1.01, 0.97, 0.82, 0.93, 0.80],
            [2.29, 1.62, 1.01, 0.83, 0.92, 0.82],
            [2.89, 2.43, 1.07, 0.95, 0.93, 0.81],
            [6.83, 4.70, 1.09, 0.96, 0.94, 0.80],
        ]
    ),
    "NEWS": np.array(
        [
            [0.96, 0.96, 1.01, 0.88, 0.91, 0.81],
            [3.64, 3.08, 1.11, 0.94, 0.93, 0.79],
            [3.07, 2.93, 1.36, 1.18, 0.93, 0.80],
            [13.1, 10.8, 1.50, 1.27, 0.93, 0.81],
        ]
    ),
}
"""Figure 4: slowdown of immediate blocking. Rows: context switch 50 us with latency 100 and
10 us, then 200 us with the same; columns: fine, medium, coarse with imbalance 0.25, 1.5."""
