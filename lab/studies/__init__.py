"""Finished studies, one folder each: what was measured once, and the page that it wrote.

They are not part of the distribution. Run one in a checkout with ``PYTHONPATH=lab python -m studies.NAME``.
"""
