"""Logs that are being written: followed across rotations, parsed a few lines at a time, the recent requests held.

``opening`` opens names as followers; ``follow`` and ``tail`` read the bytes; ``parsing`` converts them to rows;
``recent`` keeps the rows of the last minutes; ``log_clock`` is the log's time; ``reader`` puts these together. ``pace``
limits how often a figure is computed.
"""
