"""Simulation of jobs rather than processes: when each starts, on how many processors, and when it ends.

A job is its execution time on p processors; its processes do not show. So
a million jobs take seconds, and whole traces and the space-sharing papers can be simulated.
"""
