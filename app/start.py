"""Where the command begins: an interrupt is no fault, from the first import to the last line of Python.

Nothing is imported before `main` runs: most of the command's first tenth of a second goes there.
"""


def main() -> int:
    """Run the command; returns its exit code."""
    try:
        import signal

        from app.cli import main as carried_out

        code = carried_out()
        # What is left is Python's own end, which would complain of an interrupt.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return code
    except KeyboardInterrupt:
        return 130
