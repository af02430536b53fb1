"""Documents: without these a person's file is misread, or its fault is told as a traceback."""

import codecs
from pathlib import Path
from typing import NoReturn

import pytest

from app.chat.documents import Document, read_document, read_stdin, with_documents
from app.errors import SpecchatError

TEXT = "Größe: 5 €\nzweite Zeile\n"


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        codecs.BOM_UTF32_LE + TEXT.encode("utf-32-le"),
        codecs.BOM_UTF32_BE + TEXT.encode("utf-32-be"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
    ],
)
def test_every_usual_encoding_gives_the_same_text(tmp_path: Path, data: bytes) -> None:
    """Else: a file saved on Windows reaches the model as mojibake, with marks or doubled lines."""
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    assert read_document(path).text == TEXT
    assert read_stdin(data) == Document("standard input", TEXT)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\x02\x00\x00", "binary"),
        ("a\0b".encode("utf-16"), "binary"),
        (b"caf\xe9", "UTF-8"),
        (codecs.BOM_UTF16_LE + b"a", "UTF-8"),
        (b"", "empty"),
        (codecs.BOM_UTF8 + b"\r\n ", "empty"),
    ],
)
def test_what_is_not_text_is_refused_by_name(tmp_path: Path, data: bytes, said: str) -> None:
    """Else: the model answers about noise, or about nothing, and nobody is told."""
    path = tmp_path / "photo.bin"
    path.write_bytes(data)
    with pytest.raises(SpecchatError, match=said) as caught:
        read_document(path)
    assert "photo.bin" in str(caught.value)
    with pytest.raises(SpecchatError, match=f"Standard input.*{said}"):
        read_stdin(data)


def test_a_folder_and_a_missing_file_are_told_apart(tmp_path: Path) -> None:
    """Else: a mistyped path and a folder give the same puzzle."""
    with pytest.raises(SpecchatError, match="is a folder"):
        read_document(tmp_path)
    with pytest.raises(SpecchatError, match="There is no file"):
        read_document(tmp_path / "nowhere.md")
    with pytest.raises(SpecchatError):
        read_document("a\0b")


def test_a_file_without_permission_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the person looks for a fault in the file. (Refused by hand: root may read everything.)"""

    def refuse(*_: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "secret.txt"
    path.write_text("x")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(SpecchatError, match=r"not allowed to read .*secret\.txt"):
        read_document(path)


def test_an_endless_file_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: /dev/zero or a disk image fills the memory."""
    monkeypatch.setattr("app.chat.documents.MAX_BYTES", 1024)
    path = tmp_path / "huge.txt"
    path.write_bytes(b"a" * 2000)
    with pytest.raises(SpecchatError, match="larger than"):
        read_document(path)


def test_two_files_of_one_name_keep_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else: the model cannot tell a/readme.md from b/readme.md."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "readme.md").write_text("x")
    monkeypatch.chdir(tmp_path)
    assert read_document(Path("a") / "readme.md").name == "a/readme.md"
    assert read_document(tmp_path / "a" / "readme.md").name == "readme.md"


def test_documents_stand_before_the_prompt_each_with_its_name() -> None:
    """Else: a small model answers the document instead of the request."""
    laid_out = with_documents("Compare.", [Document("a.md", "one\n"), Document("b.md", "two\n")])
    assert laid_out == (
        "[Document: a.md]\none\n[End of a.md]\n\n[Document: b.md]\ntwo\n[End of b.md]\n\nCompare."
    )
    assert with_documents("Hello.", []) == "Hello."
