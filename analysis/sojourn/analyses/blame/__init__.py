"""Attribute every second of queueing delay to the requests in service, the balancer or the way to the worker."""
