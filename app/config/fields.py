"""What each setting may be. The file's faults and the settings dialogue are made from this table."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from app.config.values import CacheType, FlashAttention, Marked, Settings, ThemeName
from app.engine.settings import LONGEST_DRAFT
from app.text import clean

Value = str | int | float | bool | tuple[str, ...] | None

# The largest number of llama.cpp's settings, and as many threads as ggml has room for.
LARGEST = 2**31 - 1
MOST_THREADS = 512
_LONGEST_SEED = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Field:
    """One setting. low, high: the range of a number, both included. empty: what None means; where it is
    "", None is not allowed. choices: of a choice. label: its name on the screen, where that is another.
    """

    section: str
    name: str
    kind: Literal["number", "whole", "text", "lines", "switch", "choice", "texts"]
    summary: str
    low: float = 0
    high: float = LARGEST
    empty: str = ""
    choices: tuple[str, ...] = ()
    label: str = ""

    @property
    def reload(self) -> bool:
        """Whether a change loads the model again."""
        return self.section == "model" and self.name != "draft_folders"

    @property
    def title(self) -> str:
        """What it is called on the screen."""
        return self.label or self.name.replace("_", " ").capitalize()


FIELDS: tuple[Field, ...] = (
    Field("sampling", "temperature", "number", "0 always takes the likeliest; higher varies more.", 0, 100),
    Field("sampling", "top_k", "whole", "Keep only the likeliest tokens; 0 is off."),
    Field("sampling", "top_p", "number", "Keep the likeliest up to this share; 1 is off.", 0, 1),
    Field("sampling", "min_p", "number", "Least share of the best token's chance; 0 is off.", 0, 1),
    Field(
        "sampling", "repeat_penalty", "number", "Above 1 makes repetition less likely; 1 is off.", 0.01, 100
    ),
    Field("sampling", "frequency_penalty", "number", "Grows with each repetition; 0 is off.", -100, 100),
    Field("sampling", "presence_penalty", "number", "The same for each repeated token; 0 is off.", -100, 100),
    Field("sampling", "penalty_window", "whole", "How many of the last tokens the penalties look at."),
    Field(
        "sampling", "seed", "whole", "The same seed gives the same reply.", 0, _LONGEST_SEED, "new each reply"
    ),
    Field("sampling", "max_tokens", "whole", "The longest reply.", 1, empty="what the context holds"),
    Field("chat", "system", "lines", "What the model is told first.", label="System prompt"),
    Field(
        "model", "name", "text", "A catalogue name or the path of a .gguf.", empty="bundled", label="Model"
    ),
    Field("model", "draft", "text", "A smaller model that drafts, by name or path.", empty="none"),
    Field("model", "context_length", "whole", "Tokens for prompt and replies.", 2, empty="automatic"),
    Field("model", "gpu_layers", "whole", "Layers on the GPU; -1 is as many as fit.", -1, label="GPU layers"),
    Field("model", "threads", "whole", "Threads on the CPU.", 1, MOST_THREADS, "measured"),
    Field(
        "model",
        "flash_attention",
        "choice",
        "On a CPU, auto measures which is faster.",
        choices=get_args(FlashAttention),
    ),
    Field(
        "model",
        "cache_type",
        "choice",
        "Number format of the cache; smaller ones save memory.",
        choices=get_args(CacheType),
    ),
    Field("model", "mmap", "switch", "Weights stay in their file and are mapped into memory."),
    Field("model", "exact", "switch", "The same reply at temperature 0, whatever drafts."),
    Field("model", "template", "text", "A chat template's name or file.", empty="the model's own"),
    Field("model", "rpc", "texts", "HOST:PORT of llama.cpp RPC servers.", label="RPC servers"),
    Field("model", "draft_folders", "texts", "Folders searched for drafts."),
    Field(
        "model",
        "bridge",
        "switch",
        "A draft with another vocabulary drafts by its text.",
        label="Bridge vocabularies",
    ),
    Field("speculation", "proposer", "choice", "What guesses tokens; auto takes the fastest."),
    Field(
        "speculation",
        "k",
        "whole",
        "Tokens drafted per pass.",
        1,
        LONGEST_DRAFT,
        "automatic",
        label="Draft length k",
    ),
    Field(
        "look", "theme", "choice", "Colours; terminal uses your terminal's own.", choices=get_args(ThemeName)
    ),
    Field("look", "panel", "switch", "Whether the speculation panel is shown."),
    Field(
        "look",
        "drafts",
        "choice",
        "Which drafts answers mark: accepted ones by a tint; all, with rejected ones struck; or none.",
        choices=get_args(Marked),
        label="Marked drafts",
    ),
)

BY_PATH = {(field.section, field.name): field for field in FIELDS}
SECTIONS = (*dict.fromkeys(field.section for field in FIELDS), "keys")


def choices_of(field: Field) -> tuple[str, ...]:
    """The values of a choice. For the proposer, those are the names in the registry."""
    if field.name != "proposer":
        return field.choices
    # Imported here because it brings numpy: a tenth of a second that a start with the default is spared.
    from proposers.registry import PROPOSERS

    return ("auto", *PROPOSERS)


def get(settings: Settings, field: Field) -> Value:
    """That setting's value."""
    value: Value = getattr(getattr(settings, field.section), field.name)
    return value


def put(settings: Settings, field: Field, value: Value) -> Settings:
    """With that value, which must be one that `adopt` allows."""
    changes: dict[str, Any] = {field.name: value}
    changes = {field.section: replace(getattr(settings, field.section), **changes)}
    return replace(settings, **changes)


def with_arguments(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """The settings with what the command line gives for them, by their names; other names are left out.

    Raises UsageError for sampling settings outside their range.
    """
    for field in FIELDS:
        if field.name in given:
            settings = put(settings, field, given[field.name])
    return settings


def adopt(field: Field, raw: object) -> Value:
    """A value of a TOML file as the settings hold it. Raises ValueError that says what would be right."""
    if field.empty and (raw is None or raw == ""):
        return None
    if field.kind in ("number", "whole"):
        return _number(field, raw)
    if field.kind == "switch":
        if isinstance(raw, bool):
            return raw
        raise ValueError("give true or false")
    if field.kind == "choice":
        if isinstance(raw, str) and (raw == default(field) or raw in choices_of(field)):
            return raw
        raise ValueError(f"give {listed(choices_of(field))}")
    if field.kind == "texts":
        if isinstance(raw, list | tuple) and all(isinstance(each, str) for each in raw):
            return tuple(raw)
        raise ValueError('give a list of texts, such as ["models", "drafts"]')
    if isinstance(raw, str):
        return raw
    raise ValueError("give a text in quotation marks")


def typed(field: Field, text: str) -> Value:
    """What a person typed for a number or a text. Raises ValueError as `adopt` does."""
    if field.kind == "lines":
        return text
    text = text.strip()
    raw: object = text
    if field.kind == "whole" and re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        raw = int(text)
    elif field.kind == "number":
        try:
            # Much of the world writes a decimal comma.
            raw = float(text.replace(",", "."))
        except ValueError:
            raw = text
    return adopt(field, raw)


def default(field: Field) -> Value:
    """Its value in an empty file."""
    return get(Settings(), field)


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant, if any."""
    return next(iter(difflib.get_close_matches(word, list(words), 1)), None)


def shown(raw: object) -> str:
    """A value of a file, short enough for a sentence."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, int | float):
        return str(raw)
    if isinstance(raw, str):
        line = " ".join(clean(raw).split())
        return f'"{line if len(line) <= 40 else line[:39] + "…"}"'
    return "a list" if isinstance(raw, list) else "a table" if isinstance(raw, dict) else "a date or time"


def listed(words: Iterable[str]) -> str:
    """Words as a choice: "a", "b" or "c"."""
    *before, last = (f'"{word}"' for word in words)
    return f"{', '.join(before)} or {last}" if before else last


def _number(field: Field, raw: object) -> float | int:
    kind = (int,) if field.kind == "whole" else (int, float)
    number = raw if isinstance(raw, kind) and not isinstance(raw, bool) else None
    if number is not None and field.low <= number <= field.high:
        return number if field.kind == "whole" else float(number)
    noun = "a whole number" if field.kind == "whole" else "a number"
    if field.high >= LARGEST and not (number is not None and number > field.high):
        raise ValueError(f"give {noun} of at least {field.low:g}")
    # :g would show only the first digits of a larger number.
    high = f"{field.high:g}" if field.high < LARGEST else f"{field.high}"
    raise ValueError(f"give {noun} from {field.low:g} to {high}")
