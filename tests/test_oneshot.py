"""`specchat -p`: its answer, its figures, and its ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.chat.documents import Document, with_documents
from app.chat.message import Message
from app.chat.prompt import encode
from app.chat.template import Template
from app.llama.model import Model
from app.llama.quantise import FileType
from tests.command import QUICK, Reply, check, text_of
from tests.conftest import Ask
from tests.tiny import CHATML, EOS, IM_END, write_tiny


@pytest.fixture
def answer(ask: Ask, tiny_path: Path) -> Callable[..., Reply]:
    """The checked JSON reply of the tiny model."""

    def run(*arguments: str | Path, stdin: bytes = b"", model: Path = tiny_path) -> Reply:
        outcome = ask("--json", *QUICK, "--model", model, "-p", "hi", *arguments, stdin=stdin)
        assert (outcome.code, outcome.err) == (0, ""), outcome
        assert outcome.out.count("\n") == 1
        return check(json.loads(outcome.out))

    return run


Answer = Callable[..., Reply]


@pytest.mark.parametrize("temperature", ["0", "0.7"])
@pytest.mark.parametrize("k", ["auto", "3"])
@pytest.mark.parametrize("proposer", ["off", "lookup", "draft", "skip"])
def test_figures_reconcile_and_the_seed_repeats_the_reply(
    answer: Answer, tiny_path: Path, tiny_draft_path: Path, proposer: str, k: str, temperature: str
) -> None:
    """Lost otherwise: an acceptance rate that means nothing, and replies that cannot be had again."""
    draft = ("--draft", tiny_draft_path) if proposer == "draft" else ()
    arguments = (*draft, "--proposer", proposer, "--k", k, "--temp", temperature, "--max-tokens", "60")
    reply = answer(*arguments)
    assert set(reply["by_proposer"]) == {proposer} and reply["seed"] == 5 and not reply["exact"]
    assert (reply["finish_reason"], len(reply["token_ids"])) == ("length", 60)
    assert reply["model"] == str(tiny_path) and reply["cached_tokens"] == 0
    assert (reply["draft"] is None) == (proposer in ("off", "lookup"))
    assert (reply["speedup"] is None) <= (reply["plain_tokens_per_s"] is None or reply["drafted"] == 0)
    with Model(tiny_path) as model:
        data = model.detokenise(reply["token_ids"], special=False)
    assert reply["text"] == text_of(data)
    if k == "3" or proposer == "off":
        again = answer(*arguments)
        assert (again["text"], again["k_history"]) == (reply["text"], reply["k_history"])
    if k == "3" and proposer == "draft":
        assert 0 < reply["accepted"] < reply["drafted"]


def test_a_draft_equal_to_the_target_is_always_accepted(answer: Answer, tiny_path: Path) -> None:
    """Lost otherwise: speed, to a draft's cache that is one token off although the text looks right."""
    reply = answer("--draft", tiny_path, "--k", "4", "--temp", "0", "--max-tokens", "80", "--exact")
    assert reply["exact"] and reply["acceptance_rate"] == 1.0
    assert reply["passes"] == 16 and reply["tokens_per_pass"] == 5.0


def test_exact_greedy_text_is_the_same_with_every_proposer(
    answer: Answer, tiny_draft_path: Path, bundled: Path
) -> None:
    """Lost otherwise: the promise that speculation changes nothing."""
    common = ("--temp", "0", "--exact", "--max-tokens", "50")
    plain = answer(*common, "--proposer", "off")["token_ids"]
    assert answer(*common, "--proposer", "lookup", "--k", "4")["token_ids"] == plain
    assert answer(*common, "--draft", tiny_draft_path)["token_ids"] == plain
    real = ("--temp", "0", "--exact", "--max-tokens", "24", "--ctx", "256")
    off = answer(*real, "--proposer", "off", model=bundled)
    lookup = answer(*real, "--proposer", "lookup", "--k", "3", model=bundled)
    assert off["token_ids"] == lookup["token_ids"] and off["text"] == lookup["text"]


def test_a_seed_is_chosen_anew_and_shown(ask: Ask, tiny_path: Path) -> None:
    """Lost otherwise: "random" replies that are always the same, or cannot be had again."""
    common = ("--threads", "1", "--model", tiny_path, "-p", "hi", "--max-tokens", "30", "--proposer", "off")
    first, second = (json.loads(ask("--json", *common).out) for _ in range(2))
    assert first["seed"] != second["seed"] and first["text"] != second["text"]
    again = json.loads(ask("--json", *common, "--seed", str(first["seed"])).out)
    assert again["text"] == first["text"]


@pytest.mark.parametrize("length", [1, 2, 7, 30])
@pytest.mark.parametrize("proposer", ["off", "lookup", "draft", "skip"])
def test_max_tokens_is_exact(answer: Answer, tiny_draft_path: Path, proposer: str, length: int) -> None:
    """Lost otherwise: replies cut k tokens early, or a token too late."""
    draft = ("--draft", tiny_draft_path) if proposer == "draft" else ()
    reply = answer(*draft, "--proposer", proposer, "--k", "5", "--max-tokens", str(length))
    assert (len(reply["token_ids"]), reply["finish_reason"]) == (length, "length")


@pytest.mark.parametrize("proposer", ["off", "lookup"])
def test_the_context_is_used_to_its_last_token(answer: Answer, proposer: str) -> None:
    """Lost otherwise: a crash, or a reply cut early, where the context ends."""
    reply = answer("--proposer", proposer, "--max-tokens", "900", "--ctx", "300")
    assert reply["finish_reason"] == "context"
    # The last token is said, but needs no place.
    assert reply["prompt_tokens"] + len(reply["token_ids"]) == 301


def test_an_end_token_ends_the_reply_and_has_no_text(answer: Answer, tmp_path: Path) -> None:
    """Lost otherwise: <|im_end|> on the screen, or text behind the end."""
    path = write_tiny(tmp_path / "short.gguf", end_scale=1.5)
    replies = [answer("--seed", str(seed), "--max-tokens", "400", model=path) for seed in range(4)]
    ended = [reply for reply in replies if reply["finish_reason"] == "stop"]
    assert ended
    for reply in ended:
        assert reply["token_ids"][-1] in (EOS, IM_END)
        assert not {EOS, IM_END} & set(reply["token_ids"][:-1])
        assert "<|im_end|>" not in reply["text"] and "</s>" not in reply["text"]


@pytest.mark.parametrize("proposer", ["off", "lookup"])
def test_a_stop_string_ends_the_text_before_it(answer: Answer, tiny_path: Path, proposer: str) -> None:
    """Lost otherwise: the stop string shown, or missed where tokens or passes share it."""
    common = ("--proposer", proposer, "--k", "3", "--max-tokens", "60")
    whole = answer(*common)["text"]
    for begin, length in ((20, 1), (25, 4), (31, 9)):
        stop = whole[begin : begin + length]
        reply = answer(*common, "--stop", "never said", "--stop", stop)
        assert reply["finish_reason"] == "stop_string"
        assert reply["text"] == whole[: whole.find(stop)]
        with Model(tiny_path) as model:
            kept = text_of(model.detokenise(reply["token_ids"], special=False))
        assert reply["text"].startswith(kept)


def test_stdout_holds_the_text_and_stderr_one_line(ask: Ask, answer: Answer, tiny_path: Path) -> None:
    """Lost otherwise: `specchat -p … > file` with figures or logs in the file."""
    common = ("--max-tokens", "40", "--proposer", "lookup", "--k", "2")
    text = answer(*common)["text"]
    outcome = ask(*QUICK, *common, "--model", tiny_path, "-p", "hi")
    assert outcome.code == 0
    assert outcome.out == text if text.endswith("\n") else outcome.out == text + "\n"
    assert outcome.err.count("\n") == 1
    for part in ("lookup · 40 tokens", "tok/s", "tokens/pass", "seed 5", "cut at --max-tokens"):
        assert part in outcome.err


def test_documents_and_piped_text_are_put_before_the_prompt(
    answer: Answer, tiny_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: an answer that never saw the document."""
    monkeypatch.chdir(tmp_path)
    Path("a.md").write_text("first paper\r\n")
    Path("b.md").write_text("zweites Blatt")
    documents = [
        Document("a.md", "first paper\n"),
        Document("b.md", "zweites Blatt"),
        Document("standard input", "piped"),
    ]

    def prompt_tokens(*used: Document, system: str | None = None) -> int:
        content = with_documents("hi", used)
        messages = [Message("system", system)] if system else []
        with Model(tiny_path) as model:
            template = Template(CHATML, "<s>", "</s>")
            return len(encode([*messages, Message("user", content)], template, model))

    few = ("--max-tokens", "2")
    assert answer(*few)["prompt_tokens"] == prompt_tokens()
    assert answer(*few, "a.md", "b.md")["prompt_tokens"] == prompt_tokens(*documents[:2])
    assert answer(*few, stdin=b"piped")["prompt_tokens"] == prompt_tokens(documents[2])
    assert answer(*few, "a.md", "b.md", stdin=b"piped")["prompt_tokens"] == prompt_tokens(*documents)
    assert answer(*few, "--system", "Be brief.")["prompt_tokens"] == prompt_tokens(system="Be brief.")


def test_the_real_model_answers_and_copies_from_its_document(
    ask: Ask, bundled: Path, requantised: Callable[[FileType], Path]
) -> None:
    """Lost otherwise: everything that the tiny models cannot show."""
    text = b"The quick brown fox jumps over the lazy dog. " * 2
    outcome = ask(
        *("--json", "--temp", "0", "--max-tokens", "24", "--k", "4", "--proposer", "lookup", "--ctx", "512"),
        *("-p", "Repeat the text word for word."),
        stdin=text,
    )
    assert outcome.code == 0, outcome
    reply = check(json.loads(outcome.out))
    assert reply["model"] == str(bundled) and reply["accepted"] > 0
    with Model(bundled) as model:
        assert model.detokenise(reply["token_ids"], special=False).decode() == reply["text"]
