"""A study of what Sojourn says of many kinds of systems, simulated with the truth known.

Run it with ``PYTHONPATH=lab python -m systems``.
"""
