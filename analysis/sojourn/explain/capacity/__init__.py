"""How much a system bears: windows of load, the laws of queueing beside what was measured, the cliff and the size."""
