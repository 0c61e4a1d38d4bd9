"""What the kernel itself says of the queues before accept(): depths, limits, counters, settings."""
