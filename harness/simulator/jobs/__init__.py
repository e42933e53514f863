"""Simulation of jobs rather than processes: when each starts, on how many processors, and when it ends.

The simulator knows the execution time of a job on p processors, but not its processes. So a
million jobs take seconds: enough for whole traces and for the papers on space sharing.
"""
