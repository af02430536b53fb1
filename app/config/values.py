"""The settings: one frozen record for each section of settings.toml.

The defaults are those of an empty file. None means that the program chooses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

from app.engine.settings import Sampling

FlashAttention = Literal["auto", "on", "off"]
CacheType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0"]
# The names in app.tui.theme.THEMES, which cannot be imported here: settings are read without a screen.
ThemeName = Literal["dark", "light", "terminal"]
# Which drafts an answer marks.
Marked = Literal["off", "accepted", "all"]


@dataclass(frozen=True, slots=True)
class SamplingSettings(Sampling):
    """For each reply. seed None: a new one each time. max_tokens None: as far as the context reaches."""

    seed: int | None = None
    max_tokens: int | None = None

    def for_engine(self) -> Sampling:
        """The engine's own record, without the seed and the limit."""
        return Sampling(**{each.name: getattr(self, each.name) for each in fields(Sampling)})


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """For new conversations. system: the system prompt, "" for none."""

    system: str = ""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What loading a model needs.

    name: a catalogue name or a path, None for the bundled model. draft: the same of a draft model, None for
    the one that the catalogue pairs with the model. bridge: the draft's vocabulary may differ; it then drafts
    text. context_length: None for as much as is needed, trained for and fits. gpu_layers: -1 for as many as
    fit. threads: None to measure. template: a chat template's name or path, None for the model's own.
    rpc: HOST:PORT of llama.cpp RPC servers that take layers. draft_folders: searched for drafts besides the
    model's own folder.
    """

    name: str | None = None
    draft: str | None = None
    bridge: bool = False
    context_length: int | None = None
    gpu_layers: int = -1
    mmap: bool = True
    threads: int | None = None
    flash_attention: FlashAttention = "auto"
    cache_type: CacheType = "f16"
    exact: bool = False
    template: str | None = None
    rpc: tuple[str, ...] = ()
    draft_folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpeculationSettings:
    """proposer: "auto" or a name in the registry. k None: the controller chooses it for each pass."""

    proposer: str = "auto"
    k: int | None = None


@dataclass(frozen=True, slots=True)
class LookSettings:
    """For the screen. panel: whether the speculation panel is shown. drafts: which ones answers mark."""

    theme: ThemeName = "dark"
    panel: bool = True
    drafts: Marked = "accepted"


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything in settings.toml. keys: action names to comma-separated keys, where not the default."""

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
    model: LoadSettings = field(default_factory=LoadSettings)
    speculation: SpeculationSettings = field(default_factory=SpeculationSettings)
    look: LookSettings = field(default_factory=LookSettings)
    keys: Mapping[str, str] = field(default_factory=dict)
