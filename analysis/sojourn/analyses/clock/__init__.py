"""Show the offset and the drift of each app's clock over time."""
