"""What a model is called: by its file's name, which people choose it by, else by what its header says.

Headers often carry what a training run was called ("Smollm2 135M 8k Lc100K Mix1 Ep2"), and files are often
called by nothing at all ("model.gguf", or a digest): the first of the two that says something is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from app.models.gguf import Header
from app.text import clean

_LONGEST = 60
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_QUANTISATION = re.compile(
    r"(?:^|[-._ ])((?:UD-)?(?:I?Q\d\w*|TQ\d\w*|B?F16|FP16|F32|(?:MX|NV)FP4\w*))$", re.IGNORECASE
)
# What converters and uploaders add to a model's name.
_ADDED = re.compile(r"[-._ ]+(?:gguf|i1|imat|imatrix)$", re.IGNORECASE)
# Names that many files have, and digests.
_SAYS_NOTHING = re.compile(
    r"(?:(?:ggml|gguf|unsloth|llama|hf)[-._ ]?)?(?:model|models|weights|merged|output|checkpoint|main|tmp)?"
    r"(?:sha256[-:])?(?:[0-9a-f]{32,})?\W*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Name:
    """model: such as "Qwen3-0.6B". quantisation: such as "Q4_K_M", "" where it is not known."""

    model: str
    quantisation: str = ""

    def __str__(self) -> str:
        return f"{self.model} {self.quantisation}".strip()

    def beside(self, target: Name) -> str:
        """As a draft for `target`: of the same model the quantisation says all."""
        same = self.quantisation and self.model.casefold() == target.model.casefold()
        return self.quantisation if same else str(self)


def name_of(header: Header) -> Name:
    """The name that a person knows the file by."""
    path = PurePath(clean(str(header.path)))
    stem, quantisation = split_name(path.name)
    quantisation = quantisation or header.quantisation or ""
    for name in (stem, *_of_header(header)):
        bare = _ADDED.sub("", _line(name))
        if not _SAYS_NOTHING.fullmatch(bare):
            return Name(bare if len(bare) <= _LONGEST else f"{bare[: _LONGEST - 1]}…", quantisation)
    return Name(_line(path.name)[:_LONGEST], quantisation)


def split_name(file: str) -> tuple[str, str]:
    """A file's name without its ending, and the quantisation that it ended in, "" where it names none."""
    stem = _PART.sub("", re.sub(r"\.gguf$", "", file, flags=re.IGNORECASE))
    found = _QUANTISATION.search(stem)
    return (stem[: found.start()], found[1].upper()) if found else (stem, "")


def with_draft(target: str, draft: str | None) -> str:
    """Both in one line, such as "SmolLM2-135M-Instruct Q4_1 + Q4_0 draft". draft: see `Name.beside`."""
    return f"{target} + {draft} draft" if draft else target


def _of_header(header: Header) -> Iterator[str]:
    """Its own name, then the one that its parts make; some converters write a whole path."""
    yield re.split(r"[/\\]", (header.text("general.name") or "")[:1000])[-1]
    parts = (header.text(f"general.{key}") for key in ("basename", "size_label", "finetune"))
    yield "-".join(part[:_LONGEST] for part in parts if part)


def _line(text: str) -> str:
    return " ".join(clean(text).split())
