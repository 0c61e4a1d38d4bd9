"""A collector with a bounded channel: heartbeats through nginx, consumers behind the channel, a broker behind those."""

from sojourn_lab.experiments.collector.case import run_case

__all__ = ["run_case"]
