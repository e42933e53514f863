"""Reports from records only."""
