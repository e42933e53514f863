"""Ousterhout 1982, after a survey: packings of gangs."""
