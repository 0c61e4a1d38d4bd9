"""Observe this machine: record packets, sample the kernel's socket queues and the queues of application servers."""
