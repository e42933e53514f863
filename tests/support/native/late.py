"""Two ways to an MPI that is loaded late: mpi4py, and ctypes beside it. Prints what both find."""

import ctypes
import sys

import mpi4py

mpi4py.rc.initialize = False
mpi = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
early = mpi.MPI_Barrier  # asked for before MPI has been initialized
from mpi4py import MPI  # noqa: E402

MPI.Init()
handle = MPI._handleof(MPI.COMM_WORLD)
world = ctypes.c_void_p(handle) if MPI._sizeof(MPI.COMM_WORLD) == 8 else ctypes.c_int(handle)
for _ in range(20):
    early(world)
    MPI.COMM_WORLD.Barrier()
    mpi.PMPI_Barrier(world)
print(MPI.COMM_WORLD.allreduce(MPI.COMM_WORLD.rank + 1))
MPI.Finalize()
