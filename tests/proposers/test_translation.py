"""Text between two vocabularies: nothing is proposed that was not drafted, nor read that was not said."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from proposers.translation import TextVocabulary, Translation, continuation


class Pieces:
    """A vocabulary of bytes, control tokens and pieces; the longest piece that fits is taken."""

    CONTROLS = ("<end>", "<turn>")

    def __init__(self, pieces: Sequence[str], controls: Sequence[str] = CONTROLS) -> None:
        self._controls = {name: 256 + number for number, name in enumerate(controls)}
        first = 256 + len(controls)
        self._ids = {piece.encode(): first + number for number, piece in enumerate(dict.fromkeys(pieces))}
        self._bytes = {token: data for data, token in self._ids.items()}
        self._names = {token: name for name, token in self._controls.items()}

    def piece(self, token: int, special: bool = False) -> bytes:
        if token in self._names:
            return self._names[token].encode() if special else b""
        return self._bytes.get(token) or bytes([token])

    def tokenise(self, text: str, special: bool = True) -> list[int]:
        if special and text in self._controls:
            return [self._controls[text]]
        data, tokens = text.encode(), []
        while data:
            longest = max((piece for piece in self._ids if data.startswith(piece)), key=len, default=data[:1])
            tokens.append(self._ids.get(longest, longest[0]))
            data = data[len(longest) :]
        return tokens


class Spaced(Pieces):
    """One that puts a space before every text, as SentencePiece does."""

    def tokenise(self, text: str, special: bool = True) -> list[int]:
        return super().tokenise(text if special and text in self._controls else " " + text, special)


characters = st.sampled_from("ab c\né中🙂")
texts = st.text(characters, max_size=12)
vocabularies = st.builds(
    lambda kind, pieces: kind([*pieces, " "]),
    st.sampled_from([Pieces, Spaced]),
    st.lists(st.text(characters, min_size=1, max_size=4), max_size=8),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Pieces, list[int]]:
    """A vocabulary, and tokens in it that need not be as a text would be tokenised, nor be whole text."""
    vocabulary = draw(vocabularies)
    parts = st.one_of(
        texts.map(lambda text: vocabulary.tokenise(text, False)),
        st.sampled_from([*range(256), 256, 257]).map(lambda token: [token]),
    )
    return vocabulary, [token for part in draw(st.lists(parts, max_size=20)) for token in part]


def is_text(data: bytes) -> bool:
    """Whether this is text, and not empty."""
    try:
        return bool(data.decode())
    except UnicodeDecodeError:
        return False


def said(vocabulary: Pieces, tokens: Sequence[int]) -> bytes:
    return b"".join(vocabulary.piece(token) for token in tokens)


@given(vocabularies, st.lists(texts, max_size=4), texts.map(str.encode), st.integers(0, 3), st.booleans())
def test_what_is_proposed_says_what_was_drafted(
    vocabulary: Pieces, parts: list[str], drafted: bytes, cut: int, ended: bool
) -> None:
    """Else the target judges words that nobody guessed, and acceptance starves."""
    words = TextVocabulary(vocabulary)
    tail = "".join(parts).encode()
    drafted = drafted[: len(drafted) - cut]
    found = continuation(words, tail, drafted, ended)
    if found is None:
        return
    assert 0 <= found.settled <= len(found.tokens)
    assert drafted.startswith(said(vocabulary, found.tokens))
    # Where the target tokenises the whole, it has the same tokens at the same place.
    whole = words.tokens((tail + said(vocabulary, found.tokens)).decode("utf-8", "ignore"))
    assert found.tokens == whole[len(whole) - len(found.tokens) :]


@pytest.mark.parametrize(
    ("tail", "drafted", "expected", "settled"),
    [
        ("one", " two three", [" two", " three"], 1),
        ("one", " two\n", [" two", "\n"], 1),
        ("", "two three", ["two", " three"], 1),
        ("one ", "two three", None, 0),
        ("one", "", [], 0),
    ],
    ids=["space before a word", "line break", "after a control token", "space at the border", "nothing"],
)
def test_only_what_begins_at_the_border_is_proposed(
    tail: str, drafted: str, expected: list[str] | None, settled: int
) -> None:
    """Else the history would have to be tokenised again, which its cache does not allow."""
    vocabulary = Pieces(["one", " two", " three", "two", " ", "\n"])
    found = continuation(TextVocabulary(vocabulary), tail.encode(), drafted.encode())
    if expected is None:
        assert found is None
    else:
        assert found is not None and found.settled == settled
        assert [vocabulary.piece(token).decode() for token in found.tokens] == expected


def test_half_a_character_waits_for_its_rest() -> None:
    """Else a draft ends in a byte that stands for nothing, or a smile stops all drafting."""
    vocabulary = Pieces(["a", "b", "🙂"])
    words, smile = TextVocabulary(vocabulary), "🙂".encode()
    assert continuation(words, b"a", b"b" + smile[:2]) == (vocabulary.tokenise("b"), 0)
    assert continuation(words, b"a", smile[:3]) == ([], 0)
    assert continuation(words, b"a", smile + b"b") == (vocabulary.tokenise("🙂b"), 1)
    # The history ends in the first half.
    bytewise = TextVocabulary(Pieces([]))
    assert continuation(bytewise, smile[:2], smile[2:] + b"b") == ([smile[2], smile[3], ord("b")], 2)
    assert continuation(bytewise, smile[:2], b"b") is None


@given(histories(), vocabularies, st.lists(st.integers(0, 60), max_size=8))
@example((Spaced([" "]), [258]), Spaced(["\n ", " "]), [1])
def test_a_history_is_translated_as_it_grows_and_is_cut(
    history: tuple[Pieces, list[int]], own: Pieces, lengths: list[int]
) -> None:
    """Else the draft continues a text that was never said, and no one sees why it is refused."""
    vocabulary, tokens = history
    translation = Translation(TextVocabulary(vocabulary), TextVocabulary(own))
    for number, length in enumerate(lengths):
        grown = tokens[:length]
        before = list(translation.tokens)
        if number % 3 == 2 or length < max(lengths[:number], default=0):
            translation.begin(grown)
        else:
            kept = translation.update(grown)
            assert translation.tokens[:kept] == before[:kept]
        unfinished = translation.unfinished
        text = said(vocabulary, grown)
        assert text.endswith(unfinished) and text.endswith(translation.tail)
        # The text that the next draft goes on from, wherever the history was cut.
        assert translation.tail or not is_text(text) or grown[-1] in (256, 257)
        try:
            readable = text.decode()
        except UnicodeDecodeError:
            continue
        # A control token between two halves of a character is no text either.
        assert said(own, translation.tokens) == readable.encode()
        assert [token for token in translation.tokens if token in (256, 257)] == [
            token for token in grown if token in (256, 257)
        ]


def test_a_long_history_is_not_read_again_at_each_pass() -> None:
    """Else each pass of a long chat costs more than it saves."""
    counted = 0

    class Counting(Pieces):
        def tokenise(self, text: str, special: bool = True) -> list[int]:
            nonlocal counted
            counted += len(text)
            return super().tokenise(text, special)

    target = Pieces([" the", " cat", " sat"])
    own = Counting([" th", "e c", "at"])
    translation = Translation(TextVocabulary(target), TextVocabulary(own))
    history = target.tokenise(" the cat sat" * 700)
    translation.begin(history)
    assert counted < 3 * 12 * 700
    counted = 0
    for token in history[:300]:
        history.append(token)
        translation.update(history)
    assert counted < 300 * 32 * 4


def test_control_tokens_are_taken_over_where_there_is_one_of_that_name() -> None:
    """Else the draft sees no turns, or the spelling of a token that it does not have."""
    target, own = Pieces(["hi"], ["<end>", "<only here>"]), Pieces(["h", "i"], ["<start>", "<end>"])
    translation = Translation(TextVocabulary(target), TextVocabulary(own), opening=256)
    translation.begin([256, 257, *target.tokenise("hi"), 256])
    assert translation.tokens == [256, 257, *own.tokenise("hi"), 257]
    # Both begin a text with the same token: it is not written twice.
    same = Translation(TextVocabulary(own), TextVocabulary(own), opening=256)
    same.begin([256, *own.tokenise("hi"), 256])
    assert same.tokens == [256, *own.tokenise("hi"), 256]
