"""A closed loop: load on gunicorn behind nginx, and an autoscaler that sets the number of workers by one signal."""

from sojourn_lab.experiments.autoscale.case import run_case

__all__ = ["run_case"]
