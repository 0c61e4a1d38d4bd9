"""Analyses of a case in addition to its split, one file each; a scenario names them in `analyses = ["…"]`."""
