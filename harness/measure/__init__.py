"""Measured runs: the plan of an experiment, its runner, calibration."""
