"""Check whether the figures can be believed: identity, Little's law, stationarity, impossible values."""
