"""Observe this machine: record packets, sample the kernel's socket queues."""
