"""From settings to an engine: models opened and checked, contexts made, proposers swapped."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from app.attention import flash_attention_here, keep_habits
from app.chat.template import Template, named_template
from app.engine.control import Controller
from app.engine.events import Finished, ProposerDropped
from app.engine.loop import Engine
from app.engine.saved_costs import costs_from_numbers, costs_to_numbers
from app.errors import SpecchatError, UsageError
from app.knowledge import Knowledge, cache_folder, knowledge_file
from app.llama.candidates import candidates_for
from app.llama.context import Context
from app.llama.devices import devices
from app.llama.fallback import find_fallback, remembered_fallback
from app.llama.layouts import amx
from app.llama.model import MemoryShort, Model
from app.llama.settings import ContextSettings, ModelSettings
from app.llama.threads import Threads
from app.loading import Opened, chosen_gpus, cpu_copies, header_of, machine_memory, make_shorter, open_smaller
from app.models.compatibility import draft_problem
from app.models.estimate import snapshots_worth
from app.models.fit import Fit, Memory, fit
from app.models.gguf import Header, read_header
from app.models.locate import draft_of, find_model, open_draft, open_model, servers_of
from app.models.naming import name_of
from app.models.skip import (
    content_digest,
    load_choice,
    skip_size,
    skip_written,
    skipped_layers_default,
    write_skip,
)
from app.threads import follow_threads
from proposers.base import Proposer
from proposers.bridge import BridgedDraft
from proposers.registry import PROPOSERS

# A layer-skipped copy larger than this is only written when the person agrees.
ASK_ABOVE_BYTES = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Setup:
    """What to load. draft: name or path.

    context_length None: as needed, up to the trained length and to what fits into memory. GPU layers of -1:
    as many as fit. bridge: a draft of another vocabulary drafts by its text. died: how the process ended that
    loaded this model last, such as "was killed by SIGILL"; "" if none did.
    """

    model: str | None = None
    draft: str | None = None
    context_length: int | None = None
    model_settings: ModelSettings = field(default_factory=ModelSettings)
    context_settings: ContextSettings = field(default_factory=ContextSettings)
    bridge: bool = False
    died: str = ""


def template_for(model: Model, name: str | None = None) -> Template:
    """The chat template of that name or path, else the one in the model's file.

    Raises SpecchatError where there is none, UsageError for an unknown name.
    """
    source = named_template(name) if name else model.chat_template
    if source is None:
        raise SpecchatError(
            f"{model.path.name} has no chat template: name one with --template, such as chatml."
        )
    return Template(source, model.token_text(model.bos), model.token_text(model.vocabulary.eos))


def _completed(setup: Setup) -> Setup:
    """With the draft and the RPC servers that the catalogue gives the model, where none were named."""
    draft = draft_of(setup.model) if setup.draft is None else None
    servers = setup.model_settings.rpc or servers_of(setup.model)
    return replace(
        setup,
        draft=str(draft) if draft else setup.draft,
        model_settings=replace(setup.model_settings, rpc=servers),
    )


class Assembly:
    """An open target, and the proposers that were asked for so far. Closes all that it opened."""

    def __init__(
        self,
        setup: Setup,
        *,
        stop: Callable[[], bool],
        agree: Callable[[str], bool] = lambda question: False,
        say: Callable[[str], None] = lambda line: None,
        warn: Callable[[str], None] | None = None,
        progress: Callable[[float], bool] | None = None,
    ) -> None:
        """Load the target's weights.

        stop: asked between passes and during long ones. agree: puts a question about disk space;
        say: tells what is written there; warn: tells what memory is too short for, None for `say` as well.
        Raises SpecchatError where a file cannot be used.
        """
        setup = _completed(setup)
        self._stop = stop
        self._agree = agree
        self._say = say
        self._warn = warn or say
        self._stack = ExitStack()
        self._proposers: dict[str, Proposer] = {}
        # The target's weights, which are loaded again where a GPU has no room for the context beside them.
        self._target_stack = self._stack.enter_context(ExitStack())
        # The draft model's own, so that it can be unloaded before the rest.
        self._draft_stack = self._stack.enter_context(ExitStack())
        # The files that proposers opened, by their names.
        self._files: dict[str, Path] = {}
        # What became of proposers that failed, by their names.
        self._dropped: dict[str, str] = {}
        self._knowledge = Knowledge(knowledge_file())
        self._told: set[str] = set()
        self._draft_names: dict[str, str] = {}
        # The target's context: those of draft models use its numbers of threads.
        self._leader: Context | None = None
        path = find_model(setup.model)
        self._header = read_header(path)
        setup = self.setup = self._without_what_kills(path, setup)
        # What is free before the weights are loaded.
        self.memory = machine_memory(setup.model_settings.rpc)
        if setup.model_settings.gpu_layers > 0 and not self.memory.gpus:
            self._tell("No layer can go to a GPU: llama.cpp finds none here, so all run on the CPU.")
        self._copies = cpu_copies()
        self._beside = tuple(header for header in [header_of(setup.draft)] if header)
        chosen = self.fitted = self._fit_target(setup.model_settings.gpu_layers)
        self._tell(chosen.problem)
        self._tell(chosen.layers_note)

        def opened(settings: ModelSettings) -> Model:
            return self._target_stack.enter_context(open_model(path, settings, progress))

        self._open_target = opened
        self.target, self._placed = self._open(
            opened,
            self._header.block_count or 0,
            replace(setup.model_settings, gpu_layers=chosen.gpu_layers),
        )

    def __enter__(self) -> Assembly:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free contexts first, then models."""
        self._stack.close()

    @property
    def draft_path(self) -> Path | None:
        """The file of the draft model, once one was opened."""
        return self._files.get("draft") or self._files.get("skip")

    @property
    def gpus(self) -> tuple[str, ...]:
        """What the GPUs that hold layers of the target call themselves; () where all are on the CPU."""
        if self._placed.gpu_layers == 0:
            return ()
        rpc = self.setup.model_settings.rpc
        return tuple(device.description for device in chosen_gpus(devices(), rpc))

    @property
    def name(self) -> str:
        """The target as a person knows it."""
        return str(name_of(self._header))

    @property
    def draft_name(self) -> str | None:
        """The draft beside it, see `Name.beside`; None without one."""
        draft = self.setup.draft
        if draft is None:
            return None
        if draft not in self._draft_names:
            header = header_of(draft)
            self._draft_names[draft] = (
                name_of(header).beside(name_of(self._header)) if header else Path(draft).name
            )
        return self._draft_names[draft]

    def file_of(self, proposer: str) -> Path | None:
        """The file that this proposer has open, None where it has none."""
        return self._files.get(proposer)

    def context_length(self, needed: int = 0) -> int:
        """The context to make: as set, else the default or as much as is needed, was trained and fits."""
        if self.setup.context_length is not None:
            return self.setup.context_length
        chosen = self._fit_target(self._placed.gpu_layers, needed)
        self._tell(chosen.problem)
        self._tell(chosen.context_note)
        self._tell(chosen.window_note)
        return min(self.target.context_trained, chosen.context_length)

    def engine(self, proposer: str, needed: int = 0) -> Engine:
        """The engine, with a context that holds `needed` tokens where the model and memory allow. The first
        may load the target anew, with fewer layers on a GPU."""
        asked = self.setup
        self._choose_attention(needed)
        whole_window = self._fit_target(self._placed.gpu_layers, needed).whole_window

        def made(length: int) -> Context:
            try:
                return self._target_context(length, whole_window)
            except MemoryShort:
                if self.setup == asked:
                    raise
                # Flash attention needs less memory.
                self.setup = asked
                return self._target_context(length, whole_window)

        context = make_shorter(
            made,
            self.context_length(needed),
            self.setup.context_length is not None,
            self.setup.context_settings.cache_type,
            self._warn,
        )
        self._leader = context
        threads = follow_threads(context, f"{self._digest} {self._placed.gpu_layers}", self._knowledge)
        remembered = costs_from_numbers(self._knowledge.get(self._costs_name(context.threads)))
        proposers = self.proposers(proposer, context.capacity)
        engine = Engine(context, proposers, Controller(remembered))
        engine.threads = threads
        return engine

    def _target_context(self, length: int, whole_window: bool) -> Context:
        """A context of the target; where a GPU has no room for it, with fewer layers there."""

        def made(settings: ModelSettings) -> Context:
            if settings != self._placed or self.target.closed:
                self._target_stack.close()
                self._placed = settings
                self.target = self._open_target(settings)
            return self._context(self._stack, self.target, length, self._candidates, whole_window)

        if self._leader is not None:
            # The target is in use.
            return made(self._placed)
        context, _ = self._open(made, self._header.block_count or 0, self._placed)
        return context

    def _choose_attention(self, needed: int) -> None:
        """Put what is faster in the place of "auto", where all of the model is on the CPU. Without flash
        attention the scores of a whole chunk are held in memory: that may not cost any context."""
        if self.memory.gpus and self._placed.gpu_layers:
            return
        asked, room = self.setup, self._room(needed)
        settings = asked.context_settings
        chosen = flash_attention_here(self._header, settings, self._knowledge)
        self.setup = replace(asked, context_settings=replace(settings, flash_attention=chosen))
        if self._room(needed) < room:
            self.setup = asked

    def _room(self, needed: int) -> tuple[bool, int]:
        """Whether the model fits into memory, and with how much context."""
        chosen = self._fit_target(self._placed.gpu_layers, needed)
        return chosen.problem is None, chosen.context_length

    def _without_what_kills(self, path: Path, setup: Setup) -> Setup:
        """With only what llama.cpp survives on this machine."""
        if amx().new and amx().fault:
            self._tell(
                f"llama.cpp's code for AMX fails on this CPU (it {amx().fault}), so it is left out; "
                "`specchat doctor` has the command that mends it."
            )
        identity, wanted = self._digest, (setup.model_settings, setup.context_settings)
        fallback = None
        if setup.died:
            fallback = find_fallback(path, identity, *wanted, lambda what: self._say(f"{path.name}: {what}"))
            if fallback and fallback.without:
                self._tell(
                    f"llama.cpp {setup.died} as it loaded {path.name}. It works without {fallback.without}, "
                    "and is loaded so from now on: as right, but slower."
                )
        fallback = fallback or remembered_fallback(identity, *wanted)
        return replace(setup, model_settings=fallback.model, context_settings=fallback.context)

    def _fit_target(self, gpu_layers: int, needed: int = 0) -> Fit:
        length = self.setup.context_length
        return self._fit(self._header, self.memory, length, gpu_layers, needed, self._beside)

    def _fit(
        self,
        header: Header,
        memory: Memory,
        length: int | None,
        gpu_layers: int,
        needed: int = 0,
        beside: Sequence[Header] = (),
    ) -> Fit:
        settings = self.setup.context_settings
        return fit(
            header,
            memory,
            length,
            gpu_layers,
            settings.cache_type,
            needed=needed,
            beside=beside,
            flash_attention=settings.flash_attention != "off",
            mmap=self.setup.model_settings.mmap,
            copies=self._copies,
            whole_window=True if settings.exact else None,
        )

    def _open(
        self, opened: Callable[[ModelSettings], Opened], layers: int, settings: ModelSettings
    ) -> tuple[Opened, ModelSettings]:
        """Open a model of so many layers, with fewer on the GPU where it has no room; how that was done."""
        return open_smaller(opened, settings, layers, self.memory, self._warn)

    def _open_with_context(
        self,
        stack: ExitStack,
        opened: Callable[[ModelSettings], Model],
        layers: int,
        settings: ModelSettings,
        length: int,
    ) -> Context:
        """A context of a model that is opened for it, both closed with `stack`."""

        def both(settings: ModelSettings) -> Context:
            with ExitStack() as own:
                context = self._context(own, own.enter_context(opened(settings)), length)
                stack.enter_context(own.pop_all())
                return context

        context, _ = self._open(both, layers, settings)
        return context

    def _tell(self, line: str | None) -> None:
        """Say a sentence, once."""
        if line is not None and line not in self._told:
            self._told.add(line)
            self._warn(line)

    def remember(self, engine: Engine, reply: Finished | None = None) -> None:
        """Keep what an engine of this assembly learned, for later runs; of a reply what it says of habits."""
        if reply is not None:
            keep_habits(self._knowledge, reply)
        measured, threads = engine.controller.costs.measured, engine.target.threads
        # Costs that began with other numbers of threads are a mixture.
        if measured and (engine.threads is None or threads == engine.threads.first):
            self._knowledge.put(self._costs_name(threads), costs_to_numbers(measured))
        for proposer in engine.sequence.proposers:
            if proposer.acceptance_state:
                self._knowledge.put(self._proposer_name(proposer.name), proposer.acceptance_state)
        self._knowledge.save()

    @cached_property
    def _digest(self) -> str:
        return content_digest(self._header)

    def _costs_name(self, threads: Threads) -> str:
        """All that the cost of a pass depends on, but its width and depth."""
        model, context = self._placed, self.setup.context_settings
        parts = (
            *("costs", self._digest, platform.node(), *threads, model.gpu_layers),
            *(context.flash_attention, context.cache_type, context.exact),
        )
        return " ".join(map(str, parts))

    def _proposer_name(self, name: str) -> str:
        """All that a proposer's acceptance depends on, but the text."""
        file = self._files.get(name) if name == "draft" else None
        draft = f" {file.name} {file.stat().st_size}" if file else ""
        return f"acceptance {self._digest} {name}{draft}"

    def automatic(self) -> tuple[str, ...]:
        """The proposers that "auto" chooses from, pass by pass: those that need nothing else."""
        draft = self.setup.draft is not None and "draft" not in self._dropped
        return ("lookup", "draft") if draft else ("lookup",)

    def proposers(self, name: str, length: int) -> tuple[Proposer, ...]:
        """The proposer of that name, or for "auto" all that it chooses from."""
        names = self.automatic() if name == "auto" else (name,)
        return tuple(self.proposer(each, length) for each in names)

    def proposer(self, name: str, length: int) -> Proposer:
        """The proposer of that name, with its model opened on first use.

        length: tokens of the target's context; a draft with less would have to stop earlier. Raises
        SpecchatError where it cannot be opened, or has failed.
        """
        kind = PROPOSERS[name]
        if name in self._dropped:
            raise SpecchatError(self._dropped[name])
        known = self._proposers.get(name)
        if known is not None:
            return known
        context: Context | None = None
        if kind.model == "draft":
            context = self._open_draft(length)
        elif kind.model == "skip":
            context = self._open_skip(length)
        if context:
            context.thread_source = self._leader
        bridged = self._bridged(context) if kind.model == "draft" and context else None
        proposer = self._proposers[name] = bridged or kind.build(context)
        proposer.restore_acceptance(self._knowledge.get(self._proposer_name(name)))
        return proposer

    def drop(self, event: ProposerDropped) -> str:
        """Use a proposer that failed no more, unless it is loaded again; what there is to say of it."""
        file = self._files.get(event.proposer)
        named = f"The draft {file.name}" if file else f"The proposer {event.proposer}"
        mend = "download it again or choose another draft"
        if file and event.proposer == "skip":
            mend = f"delete {file}, and it is written anew"
        why = f"computes no numbers (NaN or infinity), so its file is damaged: {mend}."
        if not event.damaged:
            why = f"failed: {event.reason}"
        sentence = self._dropped[event.proposer] = f"{named} is switched off, as it {why}"
        return sentence

    def dropped(self, name: str) -> str | None:
        """Why this proposer was switched off, None where it was not."""
        return self._dropped.get(name)

    def set_draft(self, draft: str | None) -> None:
        """Unload the draft model, if one is loaded, and name another: it is opened on first use.

        No engine may use the proposer "draft" of before any more.
        """
        self._proposers.pop("draft", None)
        self._dropped.pop("draft", None)
        self._files.pop("draft", None)
        self._draft_stack.close()
        self.setup = replace(self.setup, draft=draft)

    @property
    def _candidates(self) -> int:
        # Where loading ended the process nothing is asked of the GPU but the model.
        own_gpu = bool(self.memory.gpus) and not self.memory.shared and not self.setup.died
        settings = self.setup.context_settings
        return candidates_for(settings, self._placed, self._header.block_count or 0, own_gpu)

    def _context(
        self, stack: ExitStack, model: Model, length: int, candidates: int = 0, whole_window: bool = True
    ) -> Context:
        # A draft model's passes are a token wide each: no snapshot reaches back over them.
        snapshots = snapshots_worth(self._header) if model is self.target else 0
        settings = replace(
            self.setup.context_settings,
            candidates=candidates,
            snapshots=snapshots,
            whole_window=whole_window,
        )
        context = stack.enter_context(Context(model, length, settings))
        context.stop = self._stop
        return context

    def _open_draft(self, length: int) -> Context:
        if self.setup.draft is None:
            raise UsageError("The proposer draft needs a draft model: give --draft FILE.gguf.")
        path = find_model(self.setup.draft)
        header = read_header(path)
        wanted = self.setup.model_settings
        # What the target left, which is known by now.
        left = machine_memory(wanted.rpc)
        chosen = self._fit(header, left, length, wanted.gpu_layers)
        for line in filter(None, (chosen.problem, chosen.layers_note)):
            self._tell(f"Draft {path.name}: {line}")
        context = self._open_with_context(
            self._draft_stack,
            lambda settings: open_draft(path, self.target, settings, self.setup.bridge),
            header.block_count or 0,
            replace(wanted, gpu_layers=chosen.gpu_layers),
            length,
        )
        self._files["draft"] = path
        return context

    def _bridged(self, draft: Context) -> Proposer | None:
        """The proposer of a draft that speaks other tokens than the target."""
        own = draft.model
        if not self.setup.bridge or draft_problem(self.target, own) is None:
            return None
        return BridgedDraft(draft, self.target, own, own.bos if own.add_bos else None)

    def _open_skip(self, length: int) -> Context:
        path = self.target.path
        header = read_header(path)
        folder = cache_folder()
        layers = load_choice(folder, content_digest(header)) or skipped_layers_default(self.target.layers)
        if not skip_written(header, layers, folder):
            size = skip_size(header, layers)
            said = f"The copy of {path.name} without {len(layers)} of its layers takes {size / 1e9:.2f} GB"
            if size > ASK_ABOVE_BYTES and not self._agree(f"{said} in {folder}. Write it?"):
                raise UsageError(f"{said} and was not written: agree with --yes, or use --proposer lookup.")
            self._say(f"{said} in {folder}.")
        copy = self._files["skip"] = write_skip(path, header, layers, folder)
        return self._open_with_context(
            self._stack,
            lambda settings: Model(copy, settings),
            self.target.layers - len(layers),
            self.setup.model_settings,
            length,
        )
