"""Ranks that wait for ever, some kinds of hangs.c with mpi4py: other-collective, read, tag."""

import os
import signal
import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
kind = sys.argv[1]
last = comm.size - 1
one = array("i", [1])
total = array("i", [0])
dup = comm.Dup()
dup.Set_name("copy")
for _ in range(3):
    dup.Allreduce(one, total)
if comm.rank == 0:
    print("begun", flush=True)
if kind == "other-collective":
    if comm.rank == last:
        dup.Barrier()
    else:
        dup.Allreduce(one, total)
    if comm.rank in (0, last):
        signal.pause()
elif kind == "read":
    if comm.rank == last:
        os.read(os.pipe()[0], 1)
    comm.Barrier()
elif kind == "tag":
    if comm.rank == 0:
        comm.send("a letter", dest=1, tag=3)
    if comm.rank == 1:
        comm.recv(source=0, tag=4)
    comm.Barrier()
