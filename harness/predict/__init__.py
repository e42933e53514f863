"""Simulated runs: back ends by process and by job, what is missing, pools."""
