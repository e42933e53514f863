"""The loop of bsp.c with mpi4py: bsp.py GRANULARITY_US IMBALANCE ITERATIONS."""

import random
import sys
from array import array
from time import monotonic, thread_time

from mpi4py import MPI

comm = MPI.COMM_WORLD
g = float(sys.argv[1]) * 1e-6
v = float(sys.argv[2])
iterations = int(sys.argv[3])
draw = random.Random(comm.rank)
one = array("l", [1])
everyone = array("l", [0])
total = 0
comm.Barrier()
begin = monotonic()
for _ in range(iterations):
    until = thread_time() + g * (1 + v * (draw.random() - 0.5))
    while thread_time() < until:
        pass
    comm.Allreduce(one, everyone)
    total += everyone[0]
spent = comm.reduce(monotonic() - begin, op=MPI.MAX)
if comm.rank == 0:
    print(f"{spent:.4f} {total}")
