"""Benchmarks of Sojourn: costs as ratios against peers measured in the same run (``make bench``)."""
