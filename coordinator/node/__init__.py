"""What runs on each node: the agent, its roster of ranks, its switcher of slots."""
