"""Hori et al. 1996: distributed queue trees against batch scheduling."""
