"""Text from models, files, templates and stored chats, made safe for the terminal."""

import re

# C0 without tab and newline, DEL, C1; overrides and isolates of the writing direction, which can make
# a line read otherwise than it is, and the deprecated format characters beside them; the two Unicode
# line separators, which some terminals and widgets break at; surrogates, which cannot be encoded.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f\u2028\u2029\ud800-\udfff]")


def clean(text: str) -> str:
    """`text` without the characters that a terminal acts on.

    Tabs and newlines stay, CR LF becomes LF, and a lone CR goes, as it would let a line overwrite itself.
    Unicode's line separators become newlines, lone surrogates U+FFFD. Zero-width joiners and the plain
    direction marks stay: emoji, Arabic, Persian and the Indic scripts are misspelled without them, and a
    terminal does nothing on seeing one.

    Each character is judged on its own, so a stream may be cleaned piece by piece, cut anywhere:
    clean(a) + clean(b) == clean(a + b).
    """
    return _FORBIDDEN.sub(_replacement, text)


def one_line(text: str) -> str:
    """`text` cleaned, in one line: each run of spaces, tabs and line ends becomes a space."""
    return " ".join(clean(text).split())


def _replacement(match: re.Match[str]) -> str:
    character = match[0]
    if "\ud800" <= character <= "\udfff":
        return "\ufffd"
    return "\n" if character in "\u2028\u2029" else ""
