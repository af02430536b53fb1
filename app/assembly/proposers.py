"""The proposers of a loaded target: opened when first used, and switched off where they fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from app.assembly.loader import Loader
from app.assembly.machine import header_of, machine_memory
from app.engine.events import ProposerDropped
from app.errors import SpecchatError, UsageError
from app.llama.context import Context
from app.llama.model import Model
from app.measurements import Measurements, cache_folder
from app.models.gguf import read_header
from app.models.locate import find_model, open_draft
from app.models.naming import name_of
from app.models.pairs import token_problem
from app.models.skip import (
    load_choice,
    skip_size,
    skip_written,
    skipped_layers_default,
    write_skip,
)
from proposers.base import Proposer
from proposers.bridge import BridgedDraft
from proposers.registry import PROPOSERS

# A layer-skipped copy larger than this is only written when the person agrees.
ASK_ABOVE_BYTES = 1_000_000_000


class Proposers:
    """The proposers that were asked for so far.

    draft: the name or path of the draft model, None without one. draft_name: what it is called beside the
    target, see `Name.beside`.
    """

    def __init__(
        self,
        loader: Loader,
        measurements: Measurements,
        agree: Callable[[str], bool],
        say: Callable[[str], None],
    ) -> None:
        """agree, say: as Assembly has them."""
        self._loader = loader
        self._name_draft(loader.settings.draft)
        self._measurements = measurements
        self._agree, self._say = agree, say
        self._opened: dict[str, Proposer] = {}
        # The files that they opened, and what became of those that failed, by their names.
        self._files: dict[str, Path] = {}
        self._failures: dict[str, str] = {}
        # The draft model's own, so that it can be unloaded before the rest.
        self._draft_stack = loader.stack.enter_context(ExitStack())

    def file_of(self, name: str) -> Path | None:
        """The file that this proposer has open, None where it has none."""
        return self._files.get(name)

    def _name_draft(self, draft: str | None) -> None:
        header = header_of(draft)
        known = name_of(header).beside(name_of(self._loader.header)) if header else None
        self.draft, self.draft_name = draft, known or (Path(draft).name if draft else None)

    def automatic(self) -> tuple[str, ...]:
        """The proposers that "auto" chooses from, pass by pass: those that need nothing else."""
        draft = self.draft is not None and "draft" not in self._failures
        return ("lookup", "draft") if draft else ("lookup",)

    def choose(self, name: str) -> tuple[Proposer, ...]:
        """The proposer of that name, or for "auto" all that it chooses from, once the target has a context.

        Raises SpecchatError where one cannot be opened, or has failed.
        """
        return tuple(map(self._proposer, self.automatic() if name == "auto" else (name,)))

    def _proposer(self, name: str) -> Proposer:
        if name in self._failures:
            raise SpecchatError(self._failures[name])
        if name not in self._opened:
            proposer = self._open(name)
            proposer.restore_acceptance(self._measurements.get(self._measured_name(name)))
            self._opened[name] = proposer
        return self._opened[name]

    def _open(self, name: str) -> Proposer:
        kind = PROPOSERS[name]
        if kind.model == "draft":
            draft = self._open_draft()
            return self._bridged(draft) or kind.build(draft)
        return kind.build(self._open_skip() if kind.model == "skip" else None)

    def keep(self, proposer: Proposer) -> None:
        """Keep what this proposer learned."""
        if proposer.acceptance_state:
            self._measurements.put(self._measured_name(proposer.name), proposer.acceptance_state)

    def _measured_name(self, name: str) -> str:
        """All that a proposer's acceptance depends on, except the text."""
        file = self._files.get(name) if name == "draft" else None
        draft = f" {file.name} {file.stat().st_size}" if file else ""
        return f"acceptance {self._loader.digest} {name}{draft}"

    def drop(self, event: ProposerDropped) -> str:
        """Stop using a proposer that failed, unless it is loaded again; a sentence that says so."""
        file = self._files.get(event.proposer)
        named = f"The draft {file.name}" if file else f"The proposer {event.proposer}"
        mend = "download it again or choose another draft"
        if file and event.proposer == "skip":
            mend = f"delete {file}, and it is written again"
        why = f"computes no numbers (NaN or infinity), so its file is damaged: {mend}."
        if not event.damaged:
            why = f"failed: {event.reason}"
        sentence = self._failures[event.proposer] = f"{named} is switched off, as it {why}"
        return sentence

    def failure(self, name: str) -> str | None:
        """Why this proposer was switched off, None where it was not."""
        return self._failures.get(name)

    def set_draft(self, draft: str | None) -> None:
        """Unload the draft model, if any, and name another, which is opened on first use.

        No engine may go on using the old one.
        """
        for held in (self._opened, self._failures, self._files):
            held.pop("draft", None)
        self._draft_stack.close()
        self._name_draft(draft)

    def _open_draft(self) -> Context:
        if self.draft is None:
            raise UsageError("The proposer draft needs a draft model: give --draft FILE.gguf.")
        loader, path = self._loader, find_model(self.draft)
        header, wanted = read_header(path), loader.model_settings
        assert loader.context is not None
        # What is free now that the target is loaded.
        left = machine_memory(wanted.rpc)
        chosen = loader.fit(header, left, loader.context.capacity, wanted.gpu_layers)
        for line in filter(None, (chosen.problem, chosen.layers_note)):
            loader.tell(f"Draft {path.name}: {line}")
        context = loader.open_beside(
            self._draft_stack,
            lambda settings: open_draft(path, loader.header, settings, loader.settings.bridge),
            header.block_count or 0,
            replace(wanted, gpu_layers=chosen.gpu_layers),
        )
        self._files["draft"] = path
        return context

    def _bridged(self, draft: Context) -> Proposer | None:
        """The proposer of a draft with another vocabulary than the target's."""
        target, own = self._loader.target, draft.model
        bridge = self._loader.settings.bridge
        if not bridge or token_problem(self._loader.header, read_header(own.path)) is None:
            return None
        return BridgedDraft(draft, target, own, own.bos if own.add_bos else None)

    def _open_skip(self) -> Context:
        target, header, folder = self._loader.target, self._loader.header, cache_folder()
        layers = load_choice(folder, self._loader.digest) or skipped_layers_default(target.layers)
        if not skip_written(header, layers, folder):
            size = skip_size(header, layers)
            said = (
                f"The copy of {target.path.name} without {len(layers)} of its layers takes "
                f"{size / 1e9:.2f} GB"
            )
            if size > ASK_ABOVE_BYTES and not self._agree(f"{said} in {folder}. Write it?"):
                raise UsageError(f"{said} and was not written: agree with --yes, or use --proposer lookup.")
            self._say(f"{said} in {folder}.")
        copy = self._files["skip"] = write_skip(header, layers, folder)
        return self._loader.open_beside(
            self._loader.stack,
            lambda settings: Model(copy, settings),
            target.layers - len(layers),
            self._loader.model_settings,
        )
