"""Loading where memory is short: smaller attempts, said in words, instead of an end."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from app.assembly import loader as loader_module
from app.assembly import proposers as proposers_module
from app.assembly.assembly import Assembly
from app.assembly.attempts import open_smaller
from app.assembly.machine import memory_of
from app.config.values import LoadSettings
from app.llama import model as model_module
from app.llama.context import Context
from app.llama.facts import Device
from app.llama.model import MemoryShort, Model
from app.llama.settings import ContextSettings, FlashAttention, ModelSettings
from app.measurements import measurements_file
from app.models.fit import Memory
from app.process.commands import Load, Task
from app.process.events import Event, Failed, Loaded, Noted
from app.process.service import Service
from tests.architectures import write_architecture
from tests.measured import prefer
from tests.tiny import write_tiny

PLENTY = 1 << 40

# Loads a model, then forbids this process to grow by more than some megabytes, then makes the engine.
LIMITED = """
import resource, sys
from app.assembly.assembly import Assembly
from app.config.values import LoadSettings
from app.errors import SpecchatError
from app.llama.settings import ContextSettings

path, megabytes, needed, asked, attention = sys.argv[1:]
settings = LoadSettings(path, context_length=int(asked) or None, flash_attention=attention)
with Assembly(settings, stop=lambda: False, say=print) as assembly:
    with open("/proc/self/status") as file:
        size = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmSize:"))
    limit = size + int(megabytes) * 1_000_000
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        engine = assembly.engine("off", needed=int(needed))
        print("made", engine.target.capacity)
    except SpecchatError as error:
        print(type(error).__name__, error.exit_code, error)
"""

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only there a process can be held to a size")


def limited(
    path: Path, megabytes: int, needed: int, asked: int = 0, attention: FlashAttention = "on"
) -> list[str]:
    numbers = map(str, (megabytes, needed, asked))
    command = [sys.executable, "-c", LIMITED, str(path), *numbers, attention]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def long_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("fallback") / "long.gguf", context=1 << 20)


@LINUX
def test_a_context_that_llama_cpp_is_refused_is_halved(long_path: Path) -> None:
    """Lost otherwise: the chat, to an error, where half the context would have done.

    llama.cpp answers with an error where a buffer is refused, and does not end the process.
    """
    said, made = limited(long_path, 400, 1_000_000)
    assert said == (
        "1,000,000 tokens of context did not fit into memory: 250,000 are used; "
        "--kv-type q8_0 halves the cache."
    )
    assert made == "made 250000"


@LINUX
def test_a_context_that_was_asked_for_is_not_shortened(long_path: Path) -> None:
    """Lost otherwise: the second half of a document that --ctx was to make room for."""
    (error,) = limited(long_path, 400, 0, 1_000_000)
    assert error.startswith("MemoryShort 3 No context of 1,000,000 tokens could be made (")
    assert error.endswith("try a smaller --ctx or another --kv-type.")


@LINUX
def test_flash_attention_is_used_after_all_where_the_memory_is_refused_without(
    long_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: half of the context, for speed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    prefer("off", measurements_file())
    *said, made = limited(long_path, 800, 0, 250_000, "auto")
    assert made == "made 250000" and "did not fit" not in "".join(said)


def with_memory(monkeypatch: pytest.MonkeyPatch, memory: Memory) -> None:
    for module in (loader_module, proposers_module):
        monkeypatch.setattr(module, "machine_memory", lambda rpc: memory)


def test_the_context_is_what_fits(long_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: the process, which Linux ends when it uses what it was given."""
    with_memory(monkeypatch, Memory(206_500_000))
    said: list[str] = []
    with Assembly(LoadSettings(name=str(long_path)), stop=lambda: False, say=said.append) as assembly:
        capacity = assembly.engine("off").target.capacity
        assert 512 <= capacity < 8192 and capacity % 256 == 0
        assert assembly.loader.context_length() == capacity
    (line,) = said
    assert line.startswith(f"The context is {capacity:,} tokens: 8,192 need about 0.0 GB")


def test_windows_are_cut_short_where_the_context_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: half the context; or, with room for all, a way back to any token."""
    path = write_architecture(tmp_path / "gemma.gguf", "gemma3", layers=4, window=250, context=32768)
    capacities = []
    for memory, exact, whole in ((260, False, False), (260, True, True), (8000, False, True)):
        with_memory(monkeypatch, Memory(memory * 1_000_000))
        settings = LoadSettings(str(path), exact=exact)
        with Assembly(settings, stop=lambda: False) as assembly:
            target = assembly.engine("lookup", needed=32768).target
        assert target.copies != whole
        capacities.append(target.capacity)
    assert capacities[1] < capacities[0] <= capacities[2] == 32768


def test_what_was_asked_for_is_tried_with_a_warning(long_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: a chat that would have worked, to a mere estimate."""
    with_memory(monkeypatch, Memory(1_000_000))
    for length in (600, None):
        said: list[str] = []
        settings = LoadSettings(str(long_path), context_length=length)
        with Assembly(settings, stop=lambda: False, say=said.append) as assembly:
            assert assembly.engine("lookup").target.capacity == (length or 512)
        (line,) = said
        assert line.startswith("The model needs about 0.0 GB and 0.0 GB are free: choose a smaller")


def test_the_draft_counts(long_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, Memory(206_500_000))
    lengths = []
    for draft in (None, str(long_path), "nowhere.gguf"):
        settings = LoadSettings(name=str(long_path), draft=draft, cache_type="q8_0")
        with Assembly(settings, stop=lambda: False) as assembly:
            lengths.append(assembly.loader.context_length())
    assert lengths[1] < lengths[0] == lengths[2]


def test_a_draft_is_weighed_against_what_the_target_left(
    long_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lost otherwise: the chat, which Linux ends for a draft that was chosen later and is too large."""
    with_memory(monkeypatch, Memory(PLENTY))
    said: list[str] = []
    settings = LoadSettings(name=str(long_path), flash_attention="on")
    with Assembly(settings, stop=lambda: False, say=said.append) as assembly:
        assembly.engine("off")
        with_memory(monkeypatch, Memory(1_000_000))
        assembly.proposers.set_draft(str(long_path))
        assembly.proposers.choose("draft")
    (line,) = said
    assert line.startswith("Draft long.gguf: The model needs about 0.0 GB and 0.0 GB are free: choose a")


def test_the_chat_is_told(long_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost otherwise: the reason, where nobody reads stderr."""
    with_memory(monkeypatch, Memory(1_000_000))
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    commands: queue.SimpleQueue[Task] = queue.SimpleQueue()
    commands.put(Load(LoadSettings(str(long_path))))
    threading.Thread(target=Service(commands, events.put).run, daemon=True).start()
    told: list[Event] = []
    while not any(isinstance(event, (Loaded, Failed)) for event in told):
        told.append(events.get(timeout=60))
    (note,) = (event.sentence for event in told if isinstance(event, Noted))
    assert note.startswith("The model needs about 0.0 GB and 0.0 GB are free: choose a smaller")


@pytest.mark.parametrize(
    ("room", "asked", "tried", "said"),
    [
        (3, -1, [-1], ()),
        (1, -1, [-1, 1], ("All layers did not fit into the GPU's memory: it holds 1.",)),
        (0, 2, [2, 1, 0], ("2 layers did not fit into the GPU's memory: the CPU takes them all.",)),
        (0, 0, [0], ()),
    ],
)
def test_weights_that_a_gpu_refuses_go_to_the_cpu(
    room: int, asked: int, tried: list[int], said: tuple[str, ...], tiny_path: Path
) -> None:
    """Lost otherwise: a model that the CPU could run, for a GPU that is a little too small."""
    attempts: list[int] = []

    def opened(settings: ModelSettings) -> Model:
        attempts.append(settings.gpu_layers)
        if (settings.gpu_layers if settings.gpu_layers >= 0 else 3) > room:
            raise MemoryShort("unable to allocate buffer")
        return Model(tiny_path, settings)

    lines: list[str] = []
    settings = ModelSettings(gpu_layers=asked)
    model, used = open_smaller(opened, settings, 2, Memory(PLENTY, (PLENTY,)), lines.append)
    model.close()
    assert attempts == tried and used.gpu_layers == tried[-1] and tuple(lines) == said


@pytest.fixture
def small_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A GPU that holds no context beside more than one layer; what models are opened with."""
    opened: list[int] = []

    class Target(Model):
        def __init__(self, path: Path, settings: ModelSettings, *progress: Callable[[float], bool]) -> None:
            opened.append(settings.gpu_layers)
            super().__init__(path, settings)

    def made(model: Model, length: int, settings: ContextSettings) -> Context:
        if opened[-1] not in (0, 1):
            raise MemoryShort("failed to allocate buffer for kv cache")
        return Context(model, length, settings)

    with_memory(monkeypatch, Memory(PLENTY, (PLENTY,)))
    monkeypatch.setattr(model_module, "Model", Target)
    monkeypatch.setattr(proposers_module, "Model", Target)
    monkeypatch.setattr(loader_module, "Context", made)
    return opened


def test_layers_make_room_for_the_context(tiny_path: Path, small_gpu: list[int]) -> None:
    """Lost otherwise: the chat, to an error, or half the context, where the CPU could take some layers."""
    said: list[str] = []
    settings = LoadSettings(name=str(tiny_path), context_length=256)
    with Assembly(settings, stop=lambda: False, say=said.append) as assembly:
        engine = assembly.engine("lookup")
        assert engine.target.capacity == 256 and engine.target.model is assembly.target
        assert engine.target.forward((1, 2, 3)).shape[0] == 1
    assert small_gpu == [-1, 1] and said == ["All layers did not fit into the GPU's memory: it holds 1."]


@pytest.mark.parametrize("name", ["draft", "skip"])
def test_layers_of_a_draft_make_room_for_its_context(
    name: str, tiny_path: Path, small_gpu: list[int]
) -> None:
    """Lost otherwise: the draft model, where the target left little of the GPU's memory."""
    said: list[str] = []
    settings = LoadSettings(name=str(tiny_path), draft=str(tiny_path), context_length=256)
    with Assembly(settings, stop=lambda: False, say=said.append) as assembly:
        assembly.engine("off")
        assembly.proposers.choose(name)
    assert small_gpu[:2] == [-1, 1] and len(small_gpu) > 3 and small_gpu[-1] in (0, 1)


def test_without_a_gpu_there_is_nothing_to_move() -> None:
    def opened(settings: ModelSettings) -> Model:
        raise MemoryShort("no room")

    with pytest.raises(MemoryShort):
        open_smaller(opened, ModelSettings(), 2, Memory(PLENTY), print)


@LINUX
def test_weights_that_do_not_fit_are_told_from_a_damaged_file(tiny_path: Path) -> None:
    """Lost otherwise: a download that is repeated although the file is whole."""
    script = """
import resource, sys
from pathlib import Path
from app.llama.model import MemoryShort, Model
from app.llama.settings import ModelSettings
from app.llama.native import native_log
native_log()
with open("/proc/self/status") as file:
    size = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmSize:"))
resource.setrlimit(resource.RLIMIT_AS, (size + 60_000_000,) * 2)
try:
    Model(Path(sys.argv[1]), ModelSettings(mmap=False))
except MemoryShort as error:
    print(error)
"""
    path = write_tiny(tiny_path.parent / "wide.gguf", width=1024, heads=8)
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert "does not fit into memory" in done.stdout
    assert done.stdout.strip().endswith("choose a smaller quantisation or fewer --gpu-layers.")


def test_which_memory_counts() -> None:
    """As llama.cpp chooses: asked-for servers, then GPUs, and one built into the CPU only without others."""
    cpu = Device("CPU", "a CPU", "cpu", 5, 9, "CPU")
    gpu = Device("CUDA0", "a GPU", "gpu", 7, 8, "CUDA")
    built_in = Device("Vulkan0", "a GPU in the CPU", "integrated", 4, 9, "Vulkan")
    server = Device("RPC0", "box:50052", "gpu", 6, 6, "RPC")
    silent = Device("X0", "tells nothing", "gpu", 0, 0, "X")

    def gpus(*found: Device, rpc: tuple[str, ...] = (), unified: bool = False) -> Memory:
        return memory_of(3, (cpu, *found), rpc, unified=unified)

    assert gpus() == Memory(3)
    assert gpus(gpu, built_in) == Memory(3, (7,))
    assert gpus(built_in) == Memory(3, (4,), shared=True)
    assert gpus(gpu, unified=True) == Memory(3, (7,), shared=True)
    assert gpus(gpu, server) == Memory(3, (7,))
    assert gpus(gpu, server, rpc=("box:50052",)) == Memory(3, (6, 7))
    assert gpus(silent).gpus[0] > PLENTY
    program = Device("Vulkan0", "llvmpipe (LLVM 15.0.6, 256 bits)", "gpu", 7, 8, "Vulkan")
    assert gpus(program) == Memory(3, (7,), shared=True)
    # More in use than the driver grants.
    overdrawn = Device("Vulkan0", "a GPU", "gpu", (1 << 64) - 7, 8, "Vulkan")
    assert gpus(overdrawn) == Memory(3, (0,))
