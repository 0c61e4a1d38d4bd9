# Written by python -m sojourn_docs: change the list of questions it follows, and run that again.

from sojourn import plots as plots
from sojourn.analyses.blame.run import blame as blame
from sojourn.analyses.capacity.run import capacity as capacity
from sojourn.analyses.clock.run import clock as clock
from sojourn.analyses.compare.run import compare as compare
from sojourn.analyses.contrast.run import contrast as contrast
from sojourn.analyses.depth.run import depth as depth
from sojourn.analyses.goodput.run import goodput as goodput
from sojourn.analyses.infer.run import infer as infer
from sojourn.analyses.kernel.run import kernel_queues as kernel_queues
from sojourn.analyses.laws.run import laws as laws
from sojourn.analyses.pcap.run import pcap as pcap
from sojourn.analyses.simulate.run import simulate as simulate
from sojourn.analyses.split.result import SplitResult as SplitResult
from sojourn.analyses.split.run import split as split
from sojourn.analyses.tiers.run import tiers as tiers
from sojourn.analyses.whatif.run import whatif as whatif
from sojourn.doctor.doctor import diagnose as diagnose
from sojourn.model.errors import SojournError as SojournError
from sojourn.model.frame import Requests as Requests
from sojourn.movie.run import write_movie as write_movie
from sojourn.perfetto.run import write_timeline as write_timeline
from sojourn.report.build import write_report as write_report
from sojourn.sources.log_files import app_log_file as app_log_file
from sojourn.sources.log_files import log_file as log_file
from sojourn.sources.log_files import table_file as table_file
from sojourn.sources.quantiles import quantile as quantile
from sojourn.sources.requests import read as read
from sojourn.timeline.visits_of import visits as visits

__version__: str
__all__ = [
    "Requests",
    "SojournError",
    "SplitResult",
    "__version__",
    "app_log_file",
    "blame",
    "capacity",
    "clock",
    "compare",
    "contrast",
    "depth",
    "diagnose",
    "goodput",
    "infer",
    "kernel_queues",
    "laws",
    "log_file",
    "pcap",
    "plots",
    "quantile",
    "read",
    "simulate",
    "split",
    "table_file",
    "tiers",
    "visits",
    "whatif",
    "write_movie",
    "write_report",
    "write_timeline",
]

def _public_modules() -> dict[str, str]: ...
