"""Policies that give a job neighbouring processors: subcubes of a hypercube, submeshes of a mesh."""
