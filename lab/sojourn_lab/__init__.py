"""The lab: runs that know the truth."""
