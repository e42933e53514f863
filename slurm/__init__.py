"""Slurm: batch scripts as text, submission, the states of jobs, the allocation around a process.

A leaf package: plain values go in, text and plain values come out. It imports nothing else of Lockstep.
"""
