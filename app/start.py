"""Where the command begins. Ctrl+C ends it without a traceback, from the first import on.

Nothing is imported before `main` runs: imports take most of the first tenth of a second.
"""


def main() -> int:
    """Run the command; returns its exit code."""
    try:
        import signal

        from app.cli import main as carried_out

        code = carried_out()
        # Python's own shutdown would print a traceback for an interrupt.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return code
    except KeyboardInterrupt:
        return 130
