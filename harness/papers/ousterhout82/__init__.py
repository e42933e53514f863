"""Ousterhout 1982, as the survey tells it: packings of gangs."""
