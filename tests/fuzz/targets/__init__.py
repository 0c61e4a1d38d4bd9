"""One file, one parser: ``check(data)`` raises for bytes that break a promise; ``made(rng)`` makes likely bytes."""
