"""One module per area; each has ``run(settings) -> Measurements``."""
