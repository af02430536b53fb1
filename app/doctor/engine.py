"""llama.cpp as it is installed: its build, the graphics card, memory, threads, heads, and an answer."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from app.doctor.facts import Died, Installation, Refused, TrialAnswer
from app.doctor.hardware import Card
from app.doctor.install import Host, build_for, from_source, without_broken_amx
from app.doctor.report import Check, counted, fault, ok, size, warning
from app.models.memory import SystemMemory
from app.models.memory_words import said_of_memory, way_back

_BUNDLED = '"specchat[demo]"'
_AGAIN = "Install llama-cpp-python again, compiled on this machine:"
_LITTLE_MEMORY = 1 << 30
# Tokens a second. The bundled model is so small that any machine with time for it does several times this.
_SLOW = 5.0
# What makes a CPU several times faster, by the names of Linux and of llama.cpp.
_WIDE = (("avx2", "AVX2"), ("asimddp", "DOTPROD"))
_LIBRARY = re.compile(r"(?:lib)?ggml-(\w+)\.")
_BACKENDS = {"cuda": "CUDA", "hip": "ROCm", "metal": "Metal", "sycl": "SYCL", "vulkan": "Vulkan"}
_FASTEST = ("AVX512", "AVX2", "AVX", "NEON", "SVE", "DOTPROD")


def build_check(facts: Installation | Refused | Died, host: Host, flags: frozenset[str]) -> Check:
    """The build itself. flags: what the CPU can do, as Linux names it; empty where that is not known."""
    name = "llama.cpp"
    if isinstance(facts, Refused):
        cuda = any(library in facts.reason for library in ("cudart", "cublas", "libcuda"))
        advice = "Install CUDA's runtime libraries and driver, or the build for the CPU:" if cuda else _AGAIN
        return fault(name, f"cannot be loaded ({facts.reason})", advice, from_source(host))
    if isinstance(facts, Died):
        return fault(name, f"the process that loaded it {_ended(facts)}", *_after_death(facts, host))
    build = facts.build
    features = ", ".join(each for each in build.cpu_features if each.startswith(_FASTEST))
    built = " and ".join(build.backends) or "backends unknown"
    finding = (
        f"{build.version}, built for {built}{f' ({features})' if features else ''}; "
        f"{'' if build.gpu_offload else 'no '}layers can go to a GPU"
    )
    if facts.amx:
        finding += f"; its code for AMX fails here (it {facts.amx}), so models are loaded without it"
        advice = "gcc 12 breaks that code. Compiled with these flags it works, and wider passes are faster:"
        return warning(name, finding, advice, without_broken_amx(host))
    unused = [theirs for cpu, theirs in _WIDE if cpu in flags and theirs not in build.cpu_features]
    if unused and build.cpu_features:
        finding += f"; it leaves out {', '.join(unused)}, which this CPU has"
        return warning(
            name, finding, "Compiled on this machine it is several times faster:", from_source(host)
        )
    return ok(name, finding)


def gpu_check(facts: Installation, cards: Sequence[Card], compiled: Sequence[str], host: Host) -> Check:
    """Whether the graphics card that the machine has is one that llama.cpp uses.

    compiled: what the build has for GPUs, which llama.cpp itself does not tell where it finds none.
    """
    used = [each for each in facts.devices if each.kind in ("gpu", "integrated")]
    if used:
        shown = (f"{each.name} ({each.description}{_memory(each.free, each.total)})" for each in used)
        return ok("gpu", ", ".join(shown))
    able = [card for card in cards if not card.integrated]
    if not able:
        own = ", ".join(f"{card.name}, part of the processor" for card in cards)
        return ok("gpu", f"none to use: the CPU decodes{f' ({own})' if own else ''}")
    # NVIDIA's first: its build is the fastest where a machine has several.
    card = next((each for each in able if each.vendor == "nvidia"), able[0])
    known = len(card.driver) > 1 and card.vendor == "nvidia"
    there = f"{card.name}{f' (driver {card.driver[0]}.{card.driver[1]:02})' if known else ''} is there"
    silent = "" if card.reachable else f"Its driver cannot be reached: {_driver_advice(card)}"
    if compiled:
        finding = f"{there}, but llama.cpp, built for {' and '.join(compiled)}, finds no GPU"
        return warning("gpu", finding, silent or f"Its driver does not answer: {_driver_advice(card)}")
    build = build_for(card, host)
    needs = f", which needs {build.needs}" if build.needs else ""
    advice = f"{silent} Install the build for {build.name}{needs}:".lstrip()
    return warning("gpu", f"{there}, and llama.cpp is built for the CPU only", advice, build.command)


def memory_check(memory: SystemMemory | None) -> Check:
    """How much memory is free for models."""
    if memory is None:
        return ok("memory", "the system does not tell how much there is")
    finding = f"{size(memory.free)} free of {size(memory.total)}"
    if memory.free < _LITTLE_MEMORY:
        return warning("memory", finding, "Close other programs before a model is loaded.")
    return ok("memory", finding)


def threads_check(facts: Installation, asked: int | None) -> Check:
    """The threads of a reply. asked: what the settings name, None for what is measured."""
    allowed = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    processors = counted(allowed, "processor")
    if asked is None:
        tried = " or ".join(map(str, facts.threads))
        return ok("threads", f"{tried} for {processors}: measured with each model as it is loaded")
    finding = f"{asked} by the settings, for {processors}"
    if asked > allowed:
        advice = "That is more than can run at once: remove threads from the settings to have it measured."
        return warning("threads", finding, advice)
    return ok("threads", finding)


def heads_check(facts: Installation) -> Check:
    """Whether this build exports what EAGLE-3 and MTP heads read hidden states with."""
    if not facts.missing:
        return ok("heads", "this build has what EAGLE-3 and MTP heads need")
    advice = "EAGLE-3 and MTP heads cannot be used; the other proposers can."
    return warning("heads", f"this build lacks {', '.join(facts.missing)}", advice)


def model_check(facts: Installation, name: str | None, host: Host, asked: bool = False) -> Check:
    """The file that `specchat` opens. name: of the settings, or with `asked` of the command line."""
    if not facts.problem:
        found = f"{name}: {facts.model}" if name else f"the bundled one, {Path(facts.model).name}"
        return ok("model", found)
    if name:
        advice = "" if asked else "Correct the name under [model] in the settings."
        return fault("model", facts.problem, advice)
    finding, advice = "none is in the settings and none is bundled", "Name one, specchat MODEL, or install:"
    return warning("model", finding, advice, f"{host.install} {_BUNDLED}")


def answer_check(answer: TrialAnswer | Refused | Died, host: Host) -> Check:
    """Whether a model can be loaded and answers."""
    name = "answer"
    if isinstance(answer, Died):
        return fault(name, f"the process that loaded the model {_ended(answer)}", *_after_death(answer, host))
    if isinstance(answer, Refused):
        if answer.absent:
            return ok(name, "not tried: the bundled model is not installed")
        return fault(name, answer.reason, "Install the bundled model again:", f"{host.install} {_BUNDLED}")
    rate = answer.tokens / answer.seconds if answer.seconds else 0.0
    finding = (
        f"{answer.model} loaded in {answer.load_seconds:.1f} s, {answer.tokens} tokens in "
        f"{answer.seconds:.1f} s ({rate:.0f} tokens/s)"
    )
    if not answer.finite:
        advice = "Try gpu_layers = 0 under [model] in the settings: if it helps, the GPU's build is at fault."
        return fault(name, f"{finding}, but what it computed is not a number", advice)
    if rate < _SLOW:
        return warning(name, finding, "That is slow: close programs that use the processors.")
    return ok(name, finding)


def rewind_check(answer: TrialAnswer) -> Check:
    """How the model's memory goes back after a rejected draft, and what that costs here."""
    cost = max(0.0, answer.rewind_cost)
    finding = (
        f"{said_of_memory(answer.memory, answer.copy_bytes)}; a rejected draft of {answer.rejected} tokens "
        f"costs {cost:.2f} plain passes"
    )
    sentence = way_back(answer.memory)
    return ok("rewind", f"{finding}. {sentence}" if sentence else finding)


def gpu_libraries(folder: Path | None) -> tuple[str, ...]:
    """What the libraries in llama-cpp-python's folder are for, besides the CPU: "CUDA", "Vulkan", …"""
    if folder is None:
        return ()
    files = {match[1] for path in folder.glob("*ggml-*") if (match := _LIBRARY.match(path.name))}
    return tuple(_BACKENDS[name] for name in sorted(files & _BACKENDS.keys()))


def library_folder() -> Path | None:
    """Where llama-cpp-python's libraries are, without loading them; None where it is not installed."""
    found = importlib.util.find_spec("llama_cpp")
    folders = found.submodule_search_locations if found else None
    return Path(folders[0]) / "lib" if folders else None


def cpu_flags(root: Path) -> frozenset[str]:
    """What the CPU can do, by /proc/cpuinfo below `root`; empty where there is none."""
    try:
        text = (root / "proc/cpuinfo").read_text(errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _memory(free: int, total: int) -> str:
    return f", {size(free)} free of {size(total)}" if total else ""


def _ended(died: Died) -> str:
    return f"{died.how}{f': {died.last}' if died.last else ''}"


def _after_death(died: Died, host: Host) -> tuple[str, str]:
    """What to do after a death of that kind, and what to type."""
    if "SIGILL" in died.how:
        return "It was built for another CPU: compile it on this machine:", from_source(host)
    if "SIGKILL" in died.how:
        return "The system ended it, most likely for want of memory: close other programs.", ""
    if "answer" in died.how:
        return "Try again when the machine is idle; a graphics driver that hangs needs a restart.", ""
    return _AGAIN, from_source(host)


def _driver_advice(card: Card) -> str:
    if card.vendor == "nvidia":
        return "`nvidia-smi` must list the card (in a container, start it with --gpus all)."
    return "in a container, hand it the card's devices (/dev/dri, for ROCm /dev/kfd too)."
