"""What charts share: how large they are, and where a logarithmic axis of seconds begins."""

WIDTH = 640
HEIGHT = 260
SMALLEST = 1e-4  # s: below this a logarithmic axis shows only nginx's rounding
