"""The driver of a run: its nodes, its log, and taking it over."""
