"""The toolkit's own pipeline as the subject: what its shipping and its store can take, one part at a time."""

from sojourn_lab.kinds.pipeline.case import run_case

__all__ = ["run_case"]
