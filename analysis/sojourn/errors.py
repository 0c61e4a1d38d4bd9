"""The one exception a user is meant to read, and the command for a package that is missing."""


class SojournError(Exception):
    """Something the user can mend: a missing file, a bad option, a log with nothing in it.

    The command line prints its text on stderr and exits with 1; it never shows a traceback.
    """


def install_command(extra: str = "") -> str:
    """Return the command that installs Sojourn with an extra (``store``, ``capture``, ``lab``): no index has it."""
    middleware = "./collector/middleware/python " if extra == "lab" else ""
    return f"pip install {middleware}" + (f"'.[{extra}]'" if extra else ".") + " (in a checkout of Sojourn)"
