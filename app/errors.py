"""Faults that a person can cause or mend, each with the command line's exit code.

A message is a sentence or two that says what happened and what to do. Bugs are not wrapped in these: they
crash loudly.
"""


class SpecchatError(Exception):
    """A model or file cannot be used (exit code 3)."""

    exit_code = 3


class UsageError(SpecchatError):
    """A setting or argument is outside what is allowed (exit code 2)."""

    exit_code = 2


class ContextError(SpecchatError):
    """The prompt does not fit the context (exit code 4)."""

    exit_code = 4


class OutputError(SpecchatError):
    """What was asked for cannot be written anywhere (exit code 5)."""

    exit_code = 5


def told(error: Exception) -> str:
    """An error as a sentence. Ours say what to do, others at least what they are."""
    return str(error) if isinstance(error, SpecchatError) else f"{type(error).__name__}: {error}"
