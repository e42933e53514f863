"""The experiment file: source with lines, overrides, checks, and the values that follow."""
