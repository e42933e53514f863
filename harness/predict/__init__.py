"""Simulated runs: back ends by process and by job, missing counterparts, pools."""
