"""Measured runs: the plan of an experiment, its runner, calibration, Slurm's gang."""
