"""A GGUF model: its weights, its vocabulary, and facts from its header."""

from __future__ import annotations

import ctypes
import os
import re
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import llama_cpp

from app.errors import SpecchatError
from app.llama.devices import devices as found_devices
from app.llama.layouts import choose_layouts
from app.llama.native import NativeOwner, native_log
from app.llama.rpc import add_servers, device_list, no_devices
from app.llama.settings import ModelSettings

# How llama.cpp, the GPU backends and the system say that memory ran out.
_SHORT = re.compile(r"alloc|out of memory|insufficient memory|memory is full", re.IGNORECASE)


class MemoryShort(SpecchatError):
    """llama.cpp found no memory for the weights or the context; smaller ones may fit."""


@dataclass(frozen=True, slots=True)
class VocabularyFacts:
    """What decides whether two models have the same tokens."""

    kind: int
    size: int
    add_bos: bool
    add_eos: bool
    bos: int
    eos: int


class Model(NativeOwner):
    """An open GGUF file. Close its contexts before it."""

    def __init__(
        self,
        path: Path,
        settings: ModelSettings | None = None,
        progress: Callable[[float], bool] | None = None,
    ) -> None:
        """Load `path`. `progress` is called with the share loaded (0 to 1), and returns False to stop.

        Afterwards `on_gpu` says whether layers may be on a GPU or a server. Raises SpecchatError with
        llama.cpp's own reason if the file cannot be loaded, MemoryShort if the reason is memory, and what
        add_servers raises.
        """
        settings = settings or ModelSettings()
        log = native_log()
        add_servers(settings.rpc)
        # Even without layers, a GPU would get passes of 32 tokens or more together with the weights for them,
        # and the CPU would not use the layouts that its fastest kernels read.
        devices = device_list(settings.rpc) if settings.gpu_layers else no_devices()
        log.faults.clear()
        parameters = llama_cpp.llama_model_default_params()
        parameters.n_gpu_layers = settings.gpu_layers
        parameters.vocab_only = settings.vocabulary_only
        parameters.use_extra_bufts = choose_layouts(settings.layouts)
        if not settings.mmap:
            parameters.load_mode = llama_cpp.LLAMA_LOAD_MODE_NONE
        if progress is not None:
            report = progress
            parameters.progress_callback = llama_cpp.llama_progress_callback(lambda share, _: report(share))
        if devices is not None:
            parameters.devices = ctypes.cast(devices, ctypes.c_void_p)
        self.path = path
        pointer = llama_cpp.llama_model_load_from_file(os.fsencode(path), parameters)
        if not pointer:
            raise _load_fault(path, list(log.faults))
        self.pointer = pointer
        self.on_gpu = settings.gpu_layers != 0 and any(
            device.kind in ("gpu", "integrated") for device in found_devices()
        )
        self._vocabulary = llama_cpp.llama_model_get_vocab(pointer)
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self._free = weakref.finalize(self, llama_cpp.llama_model_free, pointer)

    @cached_property
    def vocabulary(self) -> VocabularyFacts:
        vocabulary = self._vocabulary
        return VocabularyFacts(
            kind=llama_cpp.llama_vocab_type(vocabulary),
            size=llama_cpp.llama_vocab_n_tokens(vocabulary),
            add_bos=llama_cpp.llama_vocab_get_add_bos(vocabulary),
            add_eos=llama_cpp.llama_vocab_get_add_eos(vocabulary),
            bos=llama_cpp.llama_vocab_bos(vocabulary),
            eos=llama_cpp.llama_vocab_eos(vocabulary),
        )

    @property
    def bos(self) -> int:
        return self.vocabulary.bos

    @property
    def add_bos(self) -> bool:
        return self.vocabulary.add_bos

    @cached_property
    def context_trained(self) -> int:
        """Tokens of context that the model was trained with."""
        return int(llama_cpp.llama_model_n_ctx_train(self.pointer))

    @cached_property
    def layers(self) -> int:
        return int(llama_cpp.llama_model_n_layer(self.pointer))

    @cached_property
    def width(self) -> int:
        """Length of a hidden state."""
        return int(llama_cpp.llama_model_n_embd_out(self.pointer))

    @cached_property
    def bytes_of_weights(self) -> int:
        return int(llama_cpp.llama_model_size(self.pointer))

    @cached_property
    def description(self) -> str:
        """llama.cpp's short description, such as "llama 135M Q4_1"."""
        buffer = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_desc(self.pointer, buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace")

    @cached_property
    def chat_template(self) -> str | None:
        """The Jinja source in the file, or None."""
        template = llama_cpp.llama_model_chat_template(self.pointer, None)
        return None if template is None else template.decode("utf-8", "replace")

    @cached_property
    def recurrent(self) -> bool:
        """Whether layers keep a single state for all tokens instead of a row for each."""
        return bool(
            llama_cpp.llama_model_is_recurrent(self.pointer) or llama_cpp.llama_model_is_hybrid(self.pointer)
        )

    @cached_property
    def window(self) -> int:
        """The sliding window of layers that have one, in tokens; 0 without such layers."""
        return int(llama_cpp.llama_model_n_swa(self.pointer))

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end a generation."""
        vocabulary = self._vocabulary
        return frozenset(
            token for token in range(self.vocabulary.size) if llama_cpp.llama_vocab_is_eog(vocabulary, token)
        )

    @cached_property
    def special_texts(self) -> frozenset[str]:
        """Texts of the control tokens, as templates write them."""
        vocabulary = self._vocabulary
        return frozenset(
            self.token_text(token)
            for token in range(self.vocabulary.size)
            if llama_cpp.llama_vocab_is_control(vocabulary, token)
        )

    def token_text(self, token: int) -> str:
        """The vocabulary's own spelling of a token, which is not always its text."""
        text = llama_cpp.llama_vocab_get_text(self._vocabulary, token)
        return text.decode("utf-8", "replace") if text else ""

    def tokenise(self, text: str, special: bool = True) -> list[int]:
        """Token ids of a text, without BOS. special: control tokens spelled out in it are recognised."""
        data = text.encode("utf-8", "replace")
        room = len(data) + 16
        while True:
            tokens = (llama_cpp.llama_token * room)()
            count = llama_cpp.llama_tokenize(self._vocabulary, data, len(data), tokens, room, False, special)
            if count >= 0:
                return list(tokens[:count])
            room = -count

    def has_tokens(self, tokens: Iterable[int]) -> bool:
        """Whether all of these are ids of this vocabulary: asked about others, llama.cpp ends the process."""
        return all(0 <= token < self.vocabulary.size for token in tokens)

    def piece(self, token: int, special: bool = False) -> bytes:
        """The bytes of a token of this vocabulary; b"" for control tokens unless `special`."""
        key = (token, special)
        piece = self._pieces.get(key)
        if piece is None:
            room = 64
            while True:
                buffer = ctypes.create_string_buffer(room)
                count = llama_cpp.llama_token_to_piece(self._vocabulary, token, buffer, room, 0, special)
                if count >= 0:
                    break
                room = -count
            piece = self._pieces[key] = buffer.raw[:count]
        return piece

    def detokenise(self, tokens: Sequence[int], special: bool = True) -> bytes:
        """The bytes of a token sequence, control tokens spelled out unless `special` is False."""
        return b"".join(self.piece(token, special) for token in tokens)


def memory_was_short(faults: Sequence[str]) -> bool:
    """Whether llama.cpp complained about memory."""
    return any(_SHORT.search(fault) for fault in faults)


def _load_fault(path: Path, faults: Sequence[str]) -> SpecchatError:
    """An error in one sentence, from llama.cpp's own complaints about a file."""
    reasons = [fault for fault in faults if "error" in fault.lower() or "unknown" in fault.lower()]
    reason = (reasons or list(faults) or ["llama.cpp gave no reason"])[0]
    reason = reason.split("error loading model:")[-1].strip().rstrip(".")
    if memory_was_short(faults):
        return MemoryShort(
            f"{path} does not fit into memory ({reason}): choose a smaller quantisation or fewer "
            "--gpu-layers."
        )
    advice = (
        "update llama-cpp-python or choose another file"
        if "unknown model architecture" in reason
        else "check that the file is complete, or download it again"
    )
    return SpecchatError(f"{path} cannot be loaded ({reason}): {advice}.")
