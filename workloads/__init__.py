"""What runs under mpirun: bulk-synchronous SPMD programs with instrumented two-phase waits.

This room knows nothing of scheduling. Programs, patterns and waiting rules are plain
numbers and arrays, so that the simulator runs the very same ones.
"""
