"""The project's own prompts, one JSON object a line: what sweeps and comparisons run on."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from app.errors import SpecchatError


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request; `prompt` may contain a document. `category` groups results: any word will do."""

    id: str
    category: str
    prompt: str


def load_prompts(path: Path | None = None) -> tuple[Prompt, ...]:
    """The prompts of a JSON Lines file, by default those that come with specchat.

    Sets of conversations have "turns", a list of texts, in place of "prompt": the first is taken.
    Raises SpecchatError, with the line's number, for a line that is not {"id", "category", "prompt"} with
    texts that are not empty, or that repeats an id.
    """
    source = files("app.bench").joinpath("prompts.jsonl") if path is None else path
    shown = "prompts.jsonl" if path is None else str(path)
    try:
        lines = source.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise SpecchatError(f"The prompts in {shown} cannot be read as UTF-8 text: {error}.") from error
    prompts: dict[str, Prompt] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        prompt = _parse(line)
        if prompt is None or prompt.id in prompts:
            fault = 'is not {"id", "category", "prompt"} in JSON' if prompt is None else "repeats an id"
            raise SpecchatError(f"Line {number} of {shown} {fault}: mend or remove it.")
        prompts[prompt.id] = prompt
    if not prompts:
        raise SpecchatError(f"There is no prompt in {shown}: write one JSON object a line.")
    return tuple(prompts.values())


def spread(prompts: Iterable[Prompt], count: int) -> list[Prompt]:
    """The first `count` prompts of each category."""
    by_category: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    return [prompt for each in by_category.values() for prompt in each[:count]]


def _parse(line: str) -> Prompt | None:
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    turns = fields.pop("turns", None)
    if isinstance(turns, list) and turns:
        fields.setdefault("prompt", turns[0])
    if set(fields) != {"id", "category", "prompt"}:
        return None
    if not all(isinstance(text, str) and text.strip() for text in fields.values()):
        return None
    return Prompt(**fields)
