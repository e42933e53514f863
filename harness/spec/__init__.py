"""Experiment files: source, overrides and checks. What they refuse is an InputError, with its remedy."""
