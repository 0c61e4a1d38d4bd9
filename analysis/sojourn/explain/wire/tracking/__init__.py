"""Segments, one by one, into what is remembered of connections and exchanges: compiled, and nothing else."""
