"""Loads a target model and what drafts for it, as far as this machine's memory allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace

from app.assembly.attempts import make_shorter, open_smaller
from app.assembly.attention import flash_attention_here
from app.assembly.machine import cpu_copies, header_of, machine_memory
from app.config.values import LoadSettings
from app.llama.candidates import candidates_for
from app.llama.context import Context
from app.llama.fallback import find_fallback, remembered_fallback
from app.llama.layouts import amx
from app.llama.model import MemoryShort, Model
from app.llama.settings import ContextSettings, ModelSettings
from app.measurements import Measurements
from app.models.estimate import snapshots_worth
from app.models.fit import Fit, Memory, fit
from app.models.gguf import Header, read_header
from app.models.locate import draft_of, find_model, open_model, servers_of
from app.models.skip import content_digest


def completed(settings: LoadSettings) -> LoadSettings:
    """With the draft and the RPC servers that the catalogue gives the model, where none are named."""
    draft = draft_of(settings.name) if settings.draft is None else None
    return replace(
        settings,
        draft=str(draft) if draft else settings.draft,
        rpc=settings.rpc or servers_of(settings.name),
    )


class Loader:
    """An open target. Closes all that it opened.

    header, digest: of the target's file. placed: how its weights were loaded. fitted: how it was expected to
    fit. memory: what was free before.
    """

    def __init__(
        self,
        settings: LoadSettings,
        measurements: Measurements,
        *,
        stop: Callable[[], bool],
        say: Callable[[str], None],
        warn: Callable[[str], None],
        progress: Callable[[float], bool] | None,
        died: str,
    ) -> None:
        """Load the target's weights; the parameters are those of Assembly. Raises SpecchatError where a file
        cannot be used."""
        self.settings = completed(settings)
        self._measurements = measurements
        self._stop, self._warn, self._progress, self._died = stop, warn, progress, died
        self._told: set[str] = set()
        self.stack = ExitStack()
        # The target's weights, which are loaded again where a GPU has no room for the context beside them.
        self._weights = self.stack.enter_context(ExitStack())
        # The target's context, once there is one.
        self.context: Context | None = None
        self._path = find_model(settings.name)
        self.header = read_header(self._path)
        self.digest = content_digest(self.header)
        self.model_settings, self.context_settings = self._survivable(say)
        self.memory = machine_memory(self.model_settings.rpc)
        if self.model_settings.gpu_layers > 0 and not self.memory.gpus:
            self.tell("No layer can go to a GPU: llama.cpp finds none here, so all run on the CPU.")
        self._copies = cpu_copies()
        self._beside = tuple(header for header in [header_of(self.settings.draft)] if header)
        self.fitted = self._fit_target(self.model_settings.gpu_layers)
        self.tell(self.fitted.problem)
        self.tell(self.fitted.layers_note)
        placed = replace(self.model_settings, gpu_layers=self.fitted.gpu_layers)
        self.target, self.placed = open_smaller(self._open, placed, self._layers, self.memory, warn)

    def tell(self, line: str | None) -> None:
        """Warn of something, once."""
        if line is not None and line not in self._told:
            self._told.add(line)
            self._warn(line)

    @property
    def _layers(self) -> int:
        return self.header.block_count or 0

    def _open(self, settings: ModelSettings) -> Model:
        return self._weights.enter_context(open_model(self._path, settings, self._progress))

    def _survivable(self, say: Callable[[str], None]) -> tuple[ModelSettings, ContextSettings]:
        """The settings, without what makes llama.cpp end its process on this machine."""
        wanted = _model_settings(self.settings), _context_settings(self.settings)
        name = self._path.name
        if amx().new and amx().fault:
            self.tell(
                f"llama.cpp's code for AMX fails on this CPU (it {amx().fault}), so it is left out; "
                "`specchat doctor` has the command that mends it."
            )
        fallback = None
        if self._died:
            fallback = find_fallback(self._path, self.digest, *wanted, lambda what: say(f"{name}: {what}"))
            if fallback and fallback.without:
                self.tell(
                    f"llama.cpp {self._died} as it loaded {name}. It works without {fallback.without}, and "
                    "is loaded so from now on: as right, but slower."
                )
        fallback = fallback or remembered_fallback(self.digest, *wanted)
        return fallback.model, fallback.context

    def fit(
        self,
        header: Header,
        memory: Memory,
        length: int | None,
        gpu_layers: int,
        needed: int = 0,
        beside: Sequence[Header] = (),
    ) -> Fit:
        """How a model fits this memory; see app/models/fit.py."""
        settings = self.context_settings
        return fit(
            header,
            memory,
            length,
            gpu_layers,
            settings.cache_type,
            needed=needed,
            beside=beside,
            flash_attention=settings.flash_attention != "off",
            copies=self._copies,
            whole_window=True if settings.exact else None,
        )

    def _fit_target(self, gpu_layers: int, needed: int = 0) -> Fit:
        length = self.settings.context_length
        return self.fit(self.header, self.memory, length, gpu_layers, needed, self._beside)

    def context_length(self, needed: int = 0) -> int:
        """The context to make: as set, else the default or as much as is needed, was trained and fits."""
        if self.settings.context_length is not None:
            return self.settings.context_length
        chosen = self._fit_target(self.placed.gpu_layers, needed)
        for line in (chosen.problem, chosen.context_note, chosen.window_note):
            self.tell(line)
        return min(self.target.context_trained, chosen.context_length)

    def make_context(self, needed: int) -> Context:
        """A context of the target for `needed` tokens where model and memory allow. The first may load the
        target again, with fewer layers on a GPU."""
        asked = self.context_settings
        self._choose_attention(needed)
        whole_window = self._fit_target(self.placed.gpu_layers, needed).whole_window

        def made(length: int) -> Context:
            try:
                return self._target_context(length, whole_window)
            except MemoryShort:
                if self.context_settings == asked:
                    raise
                # Flash attention needs less memory.
                self.context_settings = asked
                return self._target_context(length, whole_window)

        fixed = self.settings.context_length is not None
        self.context = make_shorter(
            made, self.context_length(needed), fixed, self.settings.cache_type, self._warn
        )
        return self.context

    def _choose_attention(self, needed: int) -> None:
        """Replace "auto" by what is faster, where all of the model is on the CPU. Without flash attention the
        scores of a whole chunk are held in memory: that may not cost any context."""
        if self.memory.gpus and self.placed.gpu_layers:
            return
        asked, room = self.context_settings, self._room(needed)
        chosen = flash_attention_here(self.header, asked, self._measurements)
        self.context_settings = replace(asked, flash_attention=chosen)
        if self._room(needed) < room:
            self.context_settings = asked

    def _room(self, needed: int) -> tuple[bool, int]:
        """Whether the model fits into memory, and with how much context."""
        chosen = self._fit_target(self.placed.gpu_layers, needed)
        return chosen.problem is None, chosen.context_length

    def _target_context(self, length: int, whole_window: bool) -> Context:
        """A context of the target; where a GPU has no room for it, with fewer layers there."""

        def made(placed: ModelSettings) -> Context:
            if placed != self.placed or self.target.closed:
                self._weights.close()
                self.placed = placed
                self.target = self._open(placed)
            # Where loading has killed the process, the GPU is asked for nothing more than the model.
            own_gpu = bool(self.memory.gpus) and not self.memory.shared and not self._died
            settings = replace(
                self.context_settings,
                candidates=candidates_for(self.context_settings, placed, self._layers, own_gpu),
                snapshots=snapshots_worth(self.header),
                whole_window=whole_window,
            )
            return self._opened_context(self.stack, self.target, length, settings)

        if self.context is not None:
            # The target is in use.
            return made(self.placed)
        return open_smaller(made, self.placed, self._layers, self.memory, self._warn)[0]

    def open_beside(
        self,
        stack: ExitStack,
        opened: Callable[[ModelSettings], Model],
        layers: int,
        settings: ModelSettings,
    ) -> Context:
        """A context as long as the target's, of another model that is opened for it; both close with `stack`.

        layers: of the model. A context of fewer tokens would have to stop drafting earlier.
        """
        target = self.context
        assert target is not None

        def both(settings: ModelSettings) -> Context:
            with ExitStack() as own:
                model = own.enter_context(opened(settings))
                # Its passes are one token wide, so snapshots would not help.
                context = self._opened_context(own, model, target.capacity, self.context_settings)
                context.thread_source = target
                stack.enter_context(own.pop_all())
                return context

        return open_smaller(both, settings, layers, self.memory, self._warn)[0]

    def _opened_context(
        self, stack: ExitStack, model: Model, length: int, settings: ContextSettings
    ) -> Context:
        context = stack.enter_context(Context(model, length, settings))
        context.stop = self._stop
        return context


def _model_settings(settings: LoadSettings) -> ModelSettings:
    return ModelSettings(gpu_layers=settings.gpu_layers, mmap=settings.mmap, rpc=settings.rpc)


def _context_settings(settings: LoadSettings) -> ContextSettings:
    return ContextSettings(
        threads=settings.threads,
        flash_attention=settings.flash_attention,
        cache_type=settings.cache_type,
        exact=settings.exact,
    )
