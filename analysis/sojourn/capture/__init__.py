"""Recording packets: the filter, the command, what it needs, and a recorder that loses nothing at its end.

The modules are imported by name (``sojourn.capture.recorder``): what a verb does not use is not loaded.
"""
