"""Follow requests across services: queueing, own work and waiting for others at each."""
