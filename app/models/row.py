"""What is known of one model, on this disk or in the catalogue: plain records that processes can exchange."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.models.hub import HubFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a file's header says; None where it says nothing.

    title: what the file calls itself. context_length: tokens it was trained for. parameters: of all parts.
    problem: a sentence that says why it cannot be chatted with. memory_kind: "hybrid", "sliding window", …;
    None for plain attention.
    """

    architecture: str | None = None
    quantisation: str | None = None
    context_length: int | None = None
    layers: int | None = None
    parameters: int | None = None
    title: str | None = None
    problem: str | None = None
    memory_kind: str | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How a model fits the memory that is free. needed: bytes.

    context_length: tokens that it would be loaded with; None where the catalogue's figure is all that is
    known. gpu_layers: how many of `layers` go on the GPU; None without one. remark: a sentence that says
    what is short, or was chosen smaller.
    """

    fits: bool
    needed: int
    context_length: int | None = None
    gpu_layers: int | None = None
    layers: int = 0
    remark: str | None = None

    @property
    def words(self) -> str:
        """The same for a column of a table."""
        if not self.fits:
            return f"no, {self.needed / 1e9:.1f} GB"
        if self.context_length is None:
            return f"yes, {self.needed / 1e9:.0f} GB"
        said = f"yes, {readable_context(self.context_length)}"
        if not self.gpu_layers:
            return said
        part = "" if self.gpu_layers >= self.layers else f" {self.gpu_layers}/{self.layers}"
        return f"{said}, GPU{part}"


@dataclass(frozen=True, slots=True)
class UsableDraft:
    """Another model of this disk as a draft. problem: why it cannot be one; None where it can."""

    name: str
    path: str
    size: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class Partner:
    """The draft that the catalogue pairs a target with. path: None where it is not here."""

    file: str
    size: int
    path: str | None

    @property
    def words(self) -> str:
        """The file's name for a column of a table."""
        return self.file.rpartition("/")[2].removesuffix(".gguf")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow(Facts):
    """One model. What is not known is None.

    name: what is typed to have it; file_name: what its file is called without that short name. origin: who
    keeps the file, "" where it is not here; path: None then. size: bytes of the target. drafts: every other
    model here, those that fit first. parts: what the catalogue names to download; missing: bytes of those
    that are not here.
    """

    name: str
    origin: str
    path: str | None
    size: int
    file_name: str = ""
    room: Room | None = None
    drafts: tuple[UsableDraft, ...] = ()
    partner: Partner | None = None
    licence: str | None = None
    unverified: bool = False
    parts: tuple[HubFile, ...] = ()
    missing: int = 0

    @property
    def fitting(self) -> tuple[UsableDraft, ...]:
        """The drafts that fit, the smallest first."""
        return tuple(each for each in self.drafts if each.problem is None)

    @property
    def lacks_draft(self) -> bool:
        """Whether it is here and the draft that the catalogue gives it is not."""
        return bool(self.path and self.partner and not self.partner.path)

    @property
    def lacking(self) -> tuple[HubFile, ...]:
        """What a download brings: all that the catalogue names, or the draft alone."""
        return self.parts[1:] if self.lacks_draft else self.parts


@dataclass(frozen=True, slots=True)
class UnusableFile:
    """What a person may look for and not find. reason: a sentence that says why, and what to do."""

    path: str
    origin: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All that is known. fault: what is wrong with the person's own catalogue, which is not used then."""

    rows: tuple[ModelRow, ...]
    unusable: tuple[UnusableFile, ...] = ()
    fault: str | None = None


def readable_context(tokens: int) -> str:
    """A number of tokens as a model's page gives it: 128k for 131,072."""
    if tokens < 1024:
        return str(tokens)
    return f"{tokens / 2**20:.3g}M" if tokens >= 2**20 else f"{tokens / 1024:.0f}k"


def readable_count(parameters: int) -> str:
    """A number of parameters as a model's page gives it: 1.7B."""
    for size, letter in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if parameters >= size:
            return f"{parameters / size:.3g}{letter}"
    return str(parameters)
