"""What charts share: how large they are, where an axis of seconds begins, and how near two instants can be told."""

WIDTH = 640
HEIGHT = 260
SMALLEST = 1e-4  # s: below this a logarithmic axis shows only nginx's rounding
COARSE = 0.004  # s: nginx's instants are whole milliseconds, and those of a request are worked out from several
