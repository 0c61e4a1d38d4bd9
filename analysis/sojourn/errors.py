"""The one exception a user is meant to read."""


class SojournError(Exception):
    """Something the user can mend: a missing file, a bad option, a log with nothing in it.

    The command line prints its text on stderr and exits with 1; it never shows a traceback.
    """
