"""Slurm: batch scripts as text, submission, the states of jobs, the allocation around a process.

A leaf: plain values go in, text and plain values come out, and nothing else of Lockstep is
imported.
"""
