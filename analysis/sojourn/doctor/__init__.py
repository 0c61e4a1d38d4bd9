"""What is missing, and the line that mends it. See docs/reference/doctor.md.

Light to import: what reads logs and stores is loaded when one is looked at.
"""

from sojourn.doctor.doctor import diagnose
from sojourn.doctor.findings import Diagnosis, Edit, Finding, edited

__all__ = ["Diagnosis", "Edit", "Finding", "diagnose", "edited"]
