"""What is said of llama.cpp: a card that lies idle, a build that dies, a model that is not there."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.children import how_it_ended
from app.doctor.engine import (
    answer_check,
    build_check,
    cpu_flags,
    gpu_check,
    gpu_libraries,
    heads_check,
    memory_check,
    model_check,
    rewind_check,
    threads_check,
)
from app.doctor.facts import Died, Installation, Refused, TrialAnswer, ask, ask_answer, ask_installation
from app.doctor.hardware import Card
from app.doctor.install import Host
from app.doctor.report import Check
from app.llama.facts import Device, LlamaBuild
from app.models.memory import SystemMemory
from tests.architectures import write_architecture

HOST = Host((3, 12, 0), "linux", "x86_64", "pip install")
CPU = Device("CPU", "a CPU", "cpu", 8 << 30, 16 << 30, "CPU")
CUDA = Device("CUDA0", "NVIDIA H200", "gpu", 138_000_000_000, 140_000_000_000, "CUDA")
BUILD = LlamaBuild("0.3.36", ("CPU",), False, ("AVX2", "FMA"), "")
FACTS = Installation(BUILD, (CPU,), (2, 4), (), "/m/a.gguf", "")
H200 = Card("nvidia", "NVIDIA H200", driver=(580, 82))


def test_a_card_that_lies_idle_is_told_with_what_to_type() -> None:
    check = gpu_check(FACTS, [Card("intel", "Intel GPU", integrated=True), H200], (), HOST)
    assert check.state == "warning" and "NVIDIA H200 (driver 580.82)" in check.finding
    assert check.command.endswith("/whl/cu130") and "CUDA 13.0" in check.advice


def test_a_build_for_the_card_that_does_not_find_it_is_the_drivers_fault() -> None:
    check = gpu_check(FACTS, [H200], ("CUDA",), HOST)
    assert check.state == "warning" and "nvidia-smi" in check.advice and not check.command


def test_a_card_that_cannot_be_reached_is_not_only_told_to_reinstall() -> None:
    check = gpu_check(FACTS, [replace(H200, reachable=False)], (), HOST)
    assert "--gpus all" in check.advice and check.command


def test_nothing_is_advised_where_there_is_nothing_to_gain() -> None:
    used = replace(FACTS, devices=(CPU, CUDA))
    assert gpu_check(used, [H200], ("CUDA",), HOST).finding == (
        "CUDA0 (NVIDIA H200, 138.0 GB free of 140.0 GB)"
    )
    for cards in ([], [Card("intel", "Intel GPU", integrated=True)]):
        check = gpu_check(FACTS, cards, (), HOST)
        assert (check.state, check.advice) == ("ok", "")


def test_the_libraries_tell_what_a_build_is_for(tmp_path: Path) -> None:
    for name in ("libggml-base.so", "libggml-cpu.so.0", "libggml-cuda.so", "ggml-vulkan.dll", "libggml.so"):
        (tmp_path / name).touch()
    assert gpu_libraries(tmp_path) == ("CUDA", "Vulkan")
    assert gpu_libraries(None) == gpu_libraries(tmp_path / "none") == ()


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (Died("was killed by SIGILL"), "another CPU"),
        (Died("was killed by SIGKILL"), "memory"),
        (Died("did not answer within 60 s"), "Try again"),
        (Died("ended with code 1", "some reason"), "Install"),
        (Refused("libcudart.so.12: cannot open shared object file"), "CUDA"),
        (Refused("No module named 'llama_cpp'"), "Install"),
    ],
)
def test_a_llama_cpp_that_cannot_be_loaded_is_a_fault(facts: Refused | Died, words: str) -> None:
    check = build_check(facts, HOST, frozenset())
    assert check.state == "fault" and words in check.advice


def test_a_build_that_leaves_the_cpu_idle() -> None:
    slow = replace(FACTS, build=replace(BUILD, cpu_features=("SSE3",)))
    assert build_check(slow, HOST, frozenset({"avx2"})).state == "warning"
    assert build_check(FACTS, HOST, frozenset({"avx2"})).state == "ok"
    # Nothing is known of either: nothing is said.
    assert build_check(slow, HOST, frozenset()).state == "ok"
    assert (
        build_check(replace(FACTS, build=replace(BUILD, cpu_features=())), HOST, frozenset({"avx2"})).state
        == "ok"
    )


def test_cpu_flags(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx avx2\nbugs\t:\n")
    assert cpu_flags(tmp_path) == {"fpu", "avx", "avx2"}
    assert cpu_flags(tmp_path / "none") == set()


def test_models_memory_threads_and_heads() -> None:
    gone = replace(FACTS, model="", problem="There is no model big.")
    assert model_check(gone, "big", HOST).state == "fault"
    assert "specchat[demo]" in model_check(gone, None, HOST).command
    assert model_check(FACTS, None, HOST).state == "ok"
    assert memory_check(SystemMemory(1 << 20, 8 << 30)).state == "warning"
    assert memory_check(SystemMemory(4 << 30, 8 << 30)).state == memory_check(None).state == "ok"
    assert threads_check(FACTS, None).state == threads_check(FACTS, 1).state == "ok"
    assert threads_check(FACTS, None).finding.startswith("2 or 4 for ")
    assert threads_check(FACTS, 4096).state == "warning"
    assert heads_check(FACTS).state == "ok"
    assert "llama_process" in heads_check(replace(FACTS, missing=("llama_process",))).finding


def test_what_was_installed_is_told_by_a_process_of_its_own() -> None:
    facts = ask_installation(None)
    assert isinstance(facts, Installation)
    assert "CPU" in facts.build.backends and min(facts.threads) >= 1
    assert [each.kind for each in facts.devices].count("cpu") == 1
    # The installed version has all of them under the names that are looked for.
    assert facts.missing == ()
    missing = ask_installation("no-such-model")
    assert isinstance(missing, Installation) and "no-such-model" in missing.problem


def test_a_model_is_loaded_and_answers(tiny_path: Path) -> None:
    answer = ask_answer(tiny_path)
    assert isinstance(answer, TrialAnswer) and answer.finite and answer.tokens > 0
    check = answer_check(answer, HOST)
    assert check.state != "fault" and "tokens/s" in check.finding


def test_what_a_rejected_draft_costs_is_told(tmp_path: Path) -> None:
    """Lost otherwise: why a recurrent model gains less by speculation."""
    answer = ask_answer(write_architecture(tmp_path / "mamba.gguf", "mamba"))
    assert isinstance(answer, TrialAnswer)
    assert answer.memory == "copied state" and answer.copy_bytes > 0 and answer.rejected > 0
    finding = rewind_check(replace(answer, copy_bytes=66_000, rewind_cost=0.375)).finding
    assert finding.startswith(
        "copied state, 66 KB a copy; a rejected draft of 4 tokens costs 0.38 plain passes. "
    )
    # A pass behind it that was faster than the one before is noise.
    plain = TrialAnswer("a.gguf", 0.1, 16, 0.4, finite=True, rejected=4, rewind_cost=-0.02)
    assert rewind_check(plain).finding == "attention; a rejected draft of 4 tokens costs 0.00 plain passes"


def test_a_model_that_cannot_be_loaded_is_a_fault(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\3")
    answer = ask_answer(broken)
    assert isinstance(answer, Refused)
    assert answer_check(answer, HOST).state == "fault"


def test_a_model_that_is_not_installed_is_none() -> None:
    assert answer_check(Refused("not installed", absent=True), HOST).state == "ok"


def test_a_machine_that_is_busy_is_told_so() -> None:
    assert answer_check(TrialAnswer("a.gguf", 0.1, 16, 14.4, finite=True), HOST).state == "warning"
    assert answer_check(TrialAnswer("a.gguf", 0.1, 16, 0.4, finite=True), HOST).state == "ok"


def test_numbers_that_are_none_are_a_fault() -> None:
    assert answer_check(TrialAnswer("a.gguf", 0.1, 16, 0.2, finite=False), HOST).state == "fault"


@pytest.mark.skipif(sys.platform == "win32", reason="other ways to die")
def test_a_native_crash_is_survived_and_named() -> None:
    script = "import os, sys; print('about to fall', file=sys.stderr, flush=True); os.kill(os.getpid(), 4)"
    died = ask((sys.executable, "-c", script), 60.0)
    assert died == Died("was killed by SIGILL", "about to fall")
    check: Check = answer_check(died, HOST)
    assert check.state == "fault" and "about to fall" in check.finding


def test_a_process_that_hangs_is_ended() -> None:
    died = ask((sys.executable, "-c", "import time; time.sleep(600)"), 0.5)
    assert isinstance(died, Died) and "did not answer" in died.how


def test_a_process_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    assert isinstance(ask((str(tmp_path / "no python"),), 5.0), Died)


def test_windows_kinds_of_death() -> None:
    assert how_it_ended(0xC000001D) == "was killed by SIGILL"
    assert how_it_ended(0xC0000005) == "was killed by SIGSEGV"
    assert how_it_ended(3) == "ended with code 3"


def test_an_app_of_somebody_elses_does_not_stand_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text("raise SystemExit('the wrong app')\n")
    monkeypatch.chdir(tmp_path)
    assert isinstance(ask_installation(None), Installation)
