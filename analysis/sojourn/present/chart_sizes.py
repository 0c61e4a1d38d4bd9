"""Common sizes of charts, the begin of an axis of seconds, and the resolution of instants."""

WIDTH = 640
HEIGHT = 260
LABEL = 300  # px: a route of 45 characters is read in full
SMALLEST = 1e-4  # s: below this a logarithmic axis shows only nginx's rounding
COARSE = 0.004  # s: nginx's instants are whole milliseconds, and those of a request are computed from several
