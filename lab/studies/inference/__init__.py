"""How accurate an inferred queue is: simulated systems of known waits, seen through the clock of a proxy."""
