"""Animate the queue: a page with play, pause and a slider, an animated GIF, or one instant of it.

rows of a split  →  request timelines (sojourn.timeline.request_timelines)  →  scenes  →  a film on one clock  →  files
"""
