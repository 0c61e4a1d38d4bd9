"""Set the laws of queueing theory beside the measured wait."""
