"""Experiments that are not plain requests through nginx to an app server; one folder or file each."""
