"""Experiments and answers: what to run, how often, what is kept, and what it says."""
