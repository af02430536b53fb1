"""Where a reply ends, and which of its text may be shown meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from app.engine.events import FinishReason
from app.engine.reply import Reply

END, OTHER_END = 0, 1


class Typist:
    """A reply and the pieces of the tokens that go into it; the tokens are numbered from 10 on."""

    def __init__(self, *pieces: str | bytes, stop: Sequence[str] = (), max_tokens: int = 1000) -> None:
        self.pieces = [piece.encode() if isinstance(piece, str) else piece for piece in pieces]
        self.reply = Reply(self._piece, {END, OTHER_END}, stop, max_tokens)
        self.shown = ""

    def _piece(self, token: int) -> bytes:
        assert token not in (END, OTHER_END), "an end token has no text"
        return self.pieces[token - 10]

    @property
    def all(self) -> list[int]:
        return [10 + index for index in range(len(self.pieces))]

    def commit(self, tokens: Sequence[int]) -> str:
        """One pass; what it shows."""
        self.reply.take(tokens, [f"of {token}" for token in tokens])
        assert self.reply.origins == [f"of {token}" for token in self.reply.tokens]
        text = self.reply.show()
        assert self.reply.show() == "", "text is shown twice"
        self.shown += text
        return text

    def one_by_one(self) -> list[str]:
        """What each pass shows where a pass commits one token, up to the reply's end."""
        shown = []
        for token in self.all:
            if self.reply.finished is None:
                shown.append(self.commit([token]))
        return shown

    def ended(self, reason: FinishReason | None, text: str, tokens: Sequence[int]) -> bool:
        """Whether the reply ended so, and everything was shown."""
        reply = self.reply
        return (reply.finished, reply.text, reply.tokens, self.shown) == (reason, text, list(tokens), text)


@pytest.mark.parametrize("end", [END, OTHER_END])
def test_an_end_token_inside_a_commit_ends_the_reply(end: int) -> None:
    """Else drafted tokens after the end are shown, and stay in the history of the next turn."""
    typist = Typist("a", "b", "c")
    typist.commit([10, end, 11, 12])
    assert typist.ended("stop", "a", [10, end])


def test_an_end_token_first_gives_an_empty_reply() -> None:
    """Else a model that has nothing to say crashes the chat, or its end token is printed."""
    typist = Typist("a")
    typist.commit([END, 10])
    assert typist.ended("stop", "", [END])


@pytest.mark.parametrize("passes", [[[10, 11, 12]], [[10], [11], [12]], [[10, 11], [12]]])
@pytest.mark.parametrize(
    ("pieces", "text", "kept"),
    [
        (("one ", "aSTOPb", "c"), "one a", 1),
        (("one ", "STOP", "c"), "one ", 1),
        (("one S", "TO", "P two"), "one ", 0),
        (("one", " ST", "OP"), "one ", 1),
        (("STOP", "b", "c"), "", 0),
        (("one", "S", "STOP"), "oneS", 2),
        (("SSTST", "OST", "OP"), "SSTSTO", 1),
    ],
)
def test_a_stop_string_is_cut_from_text_and_tokens(
    pieces: tuple[str, ...], text: str, kept: int, passes: list[list[int]]
) -> None:
    """Else part of a stop string is shown, or stays in the tokens that the next turn continues."""
    typist = Typist(*pieces, stop=["STOP"])
    for tokens in passes:
        if typist.reply.finished is None:
            typist.commit(tokens)
    assert typist.ended("stop_string", text, typist.all[:kept])


def test_text_that_may_become_a_stop_string_waits() -> None:
    """Else the reader sees the beginning of a stop string that is then taken back."""
    typist = Typist("Hi ", "E", "N", "D", stop=["END"])
    assert typist.one_by_one() == ["Hi ", "", "", ""]
    assert typist.ended("stop_string", "Hi ", [10])


def test_text_that_is_no_stop_string_after_all_is_shown() -> None:
    """Else words that begin like a stop string vanish from the screen."""
    typist = Typist("E", "N", "E", "ND", "E!", stop=["ENDS"])
    assert typist.one_by_one() == ["", "", "EN", "", "ENDE!"]
    assert typist.ended(None, "ENENDE!", typist.all)


def test_held_back_text_is_shown_when_the_reply_ends() -> None:
    """Else the last characters are missing where they look like the beginning of a stop string."""
    by_length = Typist("a", "EN", stop=["END"], max_tokens=2)
    assert by_length.one_by_one() == ["a", "EN"]
    assert by_length.ended("length", "aEN", [10, 11])
    by_token = Typist("aEN", stop=["END"])
    by_token.commit([10, END])
    assert by_token.ended("stop", "aEN", [10, END])


@pytest.mark.parametrize(
    ("pieces", "stop", "text", "kept"),
    [
        (("ab", "cd"), ["bcd", "c"], "a", 0),
        (("ab", "c", "d"), ["bcd", "c"], "ab", 1),
        (("xa", "b"), ["ab", "abc"], "x", 0),
        (("xa", "bc"), ["abc", "ab"], "x", 0),
        (("x", "aab"), ["ab", "aab"], "x", 1),
        (("x", "\n", "\n"), ["\n\n", "\n\n\n"], "x", 1),
        (("x", "STOP"), ["", "STOP"], "x", 1),
    ],
)
def test_of_several_stop_strings_the_earliest_cuts(
    pieces: tuple[str, ...], stop: list[str], text: str, kept: int
) -> None:
    """Else a second --stop hides the first, or part of one of them is shown."""
    typist = Typist(*pieces, stop=stop)
    typist.one_by_one()
    assert typist.ended("stop_string", text, typist.all[:kept])


def test_max_tokens_is_exact_inside_a_commit() -> None:
    """Else a reply runs over its limit by up to k tokens, or ends k tokens early."""
    typist = Typist(*"abcdef", max_tokens=4)
    typist.commit(typist.all[:3])
    assert typist.reply.finished is None
    assert typist.reply.wanted == 1
    typist.commit(typist.all[3:])
    assert typist.ended("length", "abcd", typist.all[:4])
    assert typist.reply.wanted == 0


def test_the_last_token_that_ends_the_reply_is_not_called_the_limit() -> None:
    """Else a finished answer is reported as cut short, and invites to continue it."""
    typist = Typist("a", "b", max_tokens=3)
    typist.commit([10, 11, END, 10])
    assert typist.ended("stop", "ab", [10, 11, END])
    stopped = Typist("a", "EN", "D", stop=["END"], max_tokens=3)
    stopped.one_by_one()
    assert stopped.ended("stop_string", "a", [10])


def test_max_tokens_do_not_hide_a_stop_before_them() -> None:
    """Else a commit that reaches the limit shows what comes after the end."""
    typist = Typist("a", "b", "c", max_tokens=3)
    typist.commit([10, END, 11, 12])
    assert typist.ended("stop", "a", [10, END])
    stopped = Typist("a", "!", "c", "d", stop=["!"], max_tokens=3)
    stopped.commit(stopped.all)
    assert stopped.ended("stop_string", "a", [10])


def test_a_character_split_over_tokens_is_shown_when_it_is_whole() -> None:
    """Else an emoji appears as question marks, or freezes the stream."""
    one, two, three, four = (bytes([byte]) for byte in "😀".encode())
    typist = Typist("a", one, two, three, four + b"b")
    assert typist.one_by_one() == ["a", "", "", "", "😀b"]
    assert typist.reply.text == "a😀b"


@pytest.mark.parametrize("whole", [1, 2, 3])
def test_a_limit_inside_an_emoji_leaves_it_out(whole: int) -> None:
    """Else a reply that is cut there raises an error or ends with a broken character."""
    pieces = [bytes([byte]) for byte in "😀".encode()]
    typist = Typist("a", *pieces, max_tokens=1 + whole)
    typist.commit(typist.all)
    assert typist.ended("length", "a", typist.all[: 1 + whole])


def test_bytes_that_are_no_character_do_not_stop_the_text() -> None:
    """Else one stray byte from the model ends the stream with an exception."""
    typist = Typist(b"\xff", b"\xf0\x9f", b"ok")
    typist.one_by_one()
    assert typist.reply.text == "\ufffd\ufffdok"
    assert typist.shown == typist.reply.text


def test_a_stop_string_whose_first_character_is_split_is_cut_whole() -> None:
    """Else half a character stays in the tokens, and the next turn's prompt differs from the cache."""
    emoji = "🛑".encode()
    typist = Typist("a", emoji[:2], emoji[2:], stop=["🛑"])
    typist.one_by_one()
    assert typist.ended("stop_string", "a", [10])


def expected_end(
    pieces: Sequence[bytes], stop: Sequence[str], max_tokens: int
) -> tuple[FinishReason | None, str, int]:
    """The definition, from the beginning for each token: reason, text, tokens kept."""
    for count in range(1, len(pieces) + 1):
        text = b"".join(pieces[:count]).decode("utf-8", "ignore")
        places = [text.find(string) for string in stop if string in text]
        if places:
            cut = text[: min(places)]
            size = len(cut.encode())
            kept = max(n for n in range(count) if len(b"".join(pieces[:n])) <= size)
            return "stop_string", cut, kept
        if count == max_tokens:
            return "length", text, count
    return None, b"".join(pieces).decode("utf-8", "ignore"), len(pieces)


cuts = st.lists(st.integers(0, 60), max_size=25).map(sorted)


# The stop strings begin with a character of one byte; of a longer first one the test above tells.
@settings(max_examples=400, deadline=None)
@given(
    text=st.text("ab\n€😀", max_size=25),
    stop=st.lists(st.from_regex(r"[ab\n][ab\n€😀]{0,3}", fullmatch=True), max_size=3),
    max_tokens=st.integers(1, 30),
    cuts=cuts,
    passes=cuts,
)
@example(text="ab", stop=["b"], max_tokens=1, cuts=[1], passes=[])
def test_any_split_into_tokens_and_passes_shows_the_text_that_stands(
    text: str, stop: list[str], max_tokens: int, cuts: list[int], passes: list[int]
) -> None:
    """Else what was read on the screen differs from the reply that is kept, by the luck of the passes."""
    data = text.encode()
    borders = [0, *(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(borders) if start < end]
    typist = Typist(*pieces, stop=stop, max_tokens=max_tokens)
    reason, standing, kept = expected_end(pieces, stop, max_tokens)
    for start, end in zip([0, *passes], [*passes, len(pieces)], strict=True):
        if typist.reply.finished is None:
            typist.commit(typist.all[start:end])
            assert standing.startswith(typist.shown), "shown, then taken back"
    assert typist.reply.finished == reason
    assert typist.reply.text == standing
    assert typist.reply.tokens == typist.all[:kept]
    held = standing[len(typist.shown) :]
    if reason is not None:
        assert held == ""
    else:
        assert held == "" or any(string.startswith(held) for string in stop)
