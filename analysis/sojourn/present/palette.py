"""One pair of colours everywhere: service time, queueing delay. From Okabe and Ito (2008), told apart by all eyes."""

SERVICE = "#0072B2"
QUEUEING = "#D55E00"
OTHER = "#999999"
RESPONSE = "#808080"
UNTOLD = "#CC79A7"

PARTS = {"queueing delay": QUEUEING, "service time": SERVICE, "everything else": OTHER}
