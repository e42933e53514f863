"""Anastasiadis and Sevcik 1997: adaptive partitions on networks of workstations."""
