"""From a conversation to the tokens of its prompt.

To render and tokenise the whole conversation would be one line, with two faults. A reply that is tokenised
again can give other ids than those that the model generated, and the cache is lost from there on. And a
person's text that spells a control token would act as one.

So some parts of the contents are held out: replaced by a marker that nobody can guess, found again in the
rendering, and put back as tokens. These are the replies whose ids are known, and every control token that is
spelled elsewhere. An ordinary first turn holds out nothing, and is tokenised exactly as the template renders
it.
"""

import re
import secrets
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Protocol

from app.chat.message import Message
from app.chat.template import Template
from app.errors import SpecchatError
from app.text import clean


class Tokeniser(Protocol):
    """What a prompt needs to know of a model's vocabulary.

    special_texts: texts of the control tokens. add_bos: whether the model expects its prompts to begin with
    BOS.
    """

    @property
    def special_texts(self) -> Collection[str]: ...
    @property
    def add_bos(self) -> bool: ...
    @property
    def bos(self) -> int: ...

    def tokenise(self, text: str, special: bool) -> list[int]:
        """Ids of `text`, without BOS; control tokens that it spells are parsed only if `special`."""

    def has_tokens(self, tokens: Iterable[int]) -> bool:
        """Whether all of these are ids of this vocabulary."""

    def detokenise(self, tokens: Sequence[int]) -> bytes:
        """The bytes of `tokens` one after the other, control tokens as their texts."""


@dataclass(frozen=True, slots=True)
class _HeldOut:
    """A part of a content that a marker stands for. reply: the index of the message, if it is a reply."""

    text: str
    ids: tuple[int, ...] = ()
    reply: int | None = None


def encode(messages: Sequence[Message], template: Template, tokeniser: Tokeniser) -> list[int]:
    """The prompt's tokens, up to where the assistant's next message begins.

    The prompt of a later turn begins with that of an earlier one and the ids generated there, unless the
    template changes what it rendered before (as one does that drops the thoughts of earlier replies). Raises
    SpecchatError when the template fails.
    """
    spelling = _spelling(frozenset(tokeniser.special_texts))
    plain = template.render(messages)
    replies = {index for index, message in enumerate(messages) if _is_as_generated(message, tokeniser)}
    secret = secrets.token_hex(16)
    while True:
        marked, held_out = _mark(messages, replies, spelling, secret)
        if not held_out:
            return _with_bos(tokeniser.tokenise(plain, True), tokeniser)
        # ["text", "marker", "text", …, "text"]
        parts = re.split(rf"(held{secret}n\d+out)", template.render(marked))
        misfits = _misfits(parts, held_out, plain)
        if not misfits:
            if replies:
                _close_gaps(parts, held_out, marked, template)
            return _with_bos(_tokens(parts, held_out, tokeniser), tokeniser)
        if not replies:
            return _with_bos(tokeniser.tokenise(_disarmed(messages, template, spelling), True), tokeniser)
        replies -= misfits


def without_oldest(
    messages: Sequence[Message], fits: Callable[[Sequence[Message]], bool]
) -> tuple[int, Sequence[Message]]:
    """The messages without as few of the oldest exchanges as makes them fit, and how many those are.

    An exchange begins with what a person says; system messages and the last exchange stay. Each call of
    `fits` renders and tokenises the conversation, so there are only log2(exchanges) of them.
    """
    begins = [index for index, message in enumerate(messages) if message.role == "user"]
    system = [message for message in messages[: begins[0]] if message.role == "system"]

    def without(count: int) -> Sequence[Message]:
        return [*system, *messages[begins[count] :]]

    last = len(begins) - 1
    dropped = bisect_left(range(last), True, key=lambda count: fits(without(count)))
    return dropped, without(dropped)


@lru_cache(maxsize=4)
def _spelling(special_texts: frozenset[str]) -> re.Pattern[str] | None:
    """Matches any control token that is spelled, the longest first, as tokenisers do."""
    texts = sorted(filter(None, special_texts), key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, texts))) if texts else None


def _is_as_generated(message: Message, tokeniser: Tokeniser) -> bool:
    """Whether the ids say here what the message says: it may have been edited, cut at a stop string, or made
    by a model of another vocabulary."""
    if message.role != "assistant" or not message.token_ids or not tokeniser.has_tokens(message.token_ids):
        return False
    generated = tokeniser.detokenise(message.token_ids).decode("utf-8", "replace")
    return clean(generated).strip() == clean(message.content).strip()


def _mark(
    messages: Sequence[Message], replies: set[int], spelling: re.Pattern[str] | None, secret: str
) -> tuple[list[Message], dict[str, _HeldOut]]:
    """The messages with markers in them, and what each marker stands for, in order."""
    held_out: dict[str, _HeldOut] = {}

    def hold_out(part: _HeldOut) -> str:
        # A word of letters and digits: templates trim, split and escape, but leave words alone.
        marker = f"held{secret}n{len(held_out)}out"
        held_out[marker] = part
        return marker

    marked = []
    for index, message in enumerate(messages):
        if index in replies:
            content = hold_out(_HeldOut(message.content, message.token_ids, index))
        elif spelling is not None:
            content = spelling.sub(lambda match: hold_out(_HeldOut(match[0])), message.content)
        else:
            content = message.content
        marked.append(replace(message, content=content))
    return marked, held_out


def _misfits(parts: Sequence[str], held_out: dict[str, _HeldOut], plain: str) -> set[int]:
    """The replies that cannot be put in place of their markers; all of them, or {-1}, if more is wrong.

    With the texts in place of the markers it must be the plain rendering: then the template treats a marker
    as it treats the content. A reply may differ by the white space at its ends, which templates trim.
    """
    replies = {part.reply for part in held_out.values() if part.reply is not None}
    found = [held_out[marker].reply for marker in parts[1::2]]
    in_order = [reply for reply in found if reply is not None] == sorted(replies)
    if not in_order or not plain.startswith(parts[0]):
        return replies or {-1}
    misfits: set[int] = set()
    place = len(parts[0])
    for marker, after in zip(parts[1::2], parts[2::2], strict=True):
        held = held_out[marker]
        text = held.text
        trimmed = () if held.reply is None else (text.rstrip(), text.lstrip(), text.strip())
        fitting = next((each for each in (text, *trimmed) if plain.startswith(each + after, place)), None)
        if fitting is not None:
            place += len(fitting) + len(after)
            continue
        # The template changed the reply. Look for what follows it, to judge the later ones too.
        resumed = plain.find(after, place)
        if held.reply is None or resumed < 0:
            return replies or {-1}
        misfits.add(held.reply)
        place = resumed + len(after)
    if place != len(plain) and not misfits:
        return replies or {-1}
    return misfits


def _close_gaps(
    parts: list[str], held_out: dict[str, _HeldOut], marked: Sequence[Message], template: Template
) -> None:
    """Drop white space that the template writes between the generation prompt and a reply.

    A template may end its prompt with "[/INST]", and write " " before an earlier reply. The model generated
    right after the prompt, so its ids have the space, if there is one.
    """
    whole, ended = template.render(marked), template.render(marked, add_generation_prompt=False)
    opening = whole.removeprefix(ended)
    before = ""
    for place in range(1, len(parts), 2):
        text = parts[place - 1]
        before += text
        reply = held_out[parts[place]].reply
        # Most templates begin an earlier reply as they begin a new one: there is no gap then.
        if reply is not None and text[-1:].isspace() and not (opening and text.endswith(opening)):
            try:
                prompt = template.render(marked[:reply])
            except SpecchatError:
                prompt = before
            gap = before[len(prompt) :]
            if before.startswith(prompt) and gap.isspace() and text.endswith(gap):
                parts[place - 1] = text.removesuffix(gap)
        before += parts[place]


def _tokens(parts: Sequence[str], held_out: dict[str, _HeldOut], tokeniser: Tokeniser) -> list[int]:
    adds_space = _adds_space(tokeniser)

    # A text full of control tokens has many parts, most of them alike.
    @cache
    def tokenised(text: str, special: bool, inside: bool) -> list[int]:
        return _tokenise(text, special, inside, tokeniser)

    tokens: list[int] = []
    for place, part in enumerate(parts):
        if place % 2 == 0:
            tokens += tokenised(part, True, adds_space and place > 0)
        elif (held := held_out[part]).ids:
            tokens += held.ids
        else:
            tokens += tokenised(held.text, False, adds_space)
    return tokens


def _adds_space(tokeniser: Tokeniser) -> bool:
    """Whether this vocabulary puts a space before every text, as SentencePiece does."""
    return tokeniser.detokenise(tokeniser.tokenise("a", False) * 2).strip() != b"aa"


def _tokenise(text: str, special: bool, inside: bool, tokeniser: Tokeniser) -> list[int]:
    """Tokens of `text`. inside: other text is before it, so no space may be put there."""
    if not text:
        return []
    if inside:
        # Put a line break before it, which no token joins to what follows, and take it and the space away.
        break_ids = tokeniser.tokenise("\n", False)
        tokens = tokeniser.tokenise("\n" + text, special)
        if tokens[: len(break_ids)] == break_ids:
            return tokens[len(break_ids) :]
    return tokeniser.tokenise(text, special)


def _disarmed(messages: Sequence[Message], template: Template, spelling: re.Pattern[str] | None) -> str:
    """The rendering with a space in each control token that is spelled.

    The last resort, for a template that changes the contents by what they say: the text is altered a little,
    but never acts.
    """
    safe = []
    for message in messages:
        content = message.content
        while spelling is not None and spelling.search(content):
            content = spelling.sub(_broken, content)
        safe.append(replace(message, content=content))
    return template.render(safe)


def _broken(spelled: re.Match[str]) -> str:
    text = spelled[0]
    return f"{text[0]} {text[1:]}" if len(text) > 1 else ""


def _with_bos(tokens: list[int], tokeniser: Tokeniser) -> list[int]:
    """`tokens` with BOS exactly once in front, whether or not the template wrote it."""
    start = 0
    while tokens[start : start + 1] == [tokeniser.bos]:
        start += 1
    if start or tokeniser.add_bos:
        return [tokeniser.bos, *tokens[start:]]
    return tokens
