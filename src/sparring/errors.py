"""The errors that are the user's to solve: one line that says what was wrong, where, and what to do."""

from __future__ import annotations


class InputError(ValueError):
    """Bad input. Its message is one line; the command line prints it and exits with status 2."""
