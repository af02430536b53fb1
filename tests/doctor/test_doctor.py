"""`specchat doctor` as it is run: in a pipe, without colour, without loading llama.cpp itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from app.commands.doctor import main
from app.doctor.install import Host
from app.doctor.packages import judge, python_check
from app.doctor.report import Check, as_json, lines_of, summary_of
from tests.architectures import write_architecture

HOST = Host((3, 12, 0), "linux", "x86_64", "pip install")
WARNING = Check(
    "gpu",
    "warning",
    "NVIDIA H200 is there " * 6,
    "Do it. " * 30,
    "pip install " + "x" * 90,
)
FAULT = Check("model", "fault", "\x1b[31mgone\nfor good", "Look for it.")


def run(
    *arguments: str, folder: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    script = "import sys; from app.commands.doctor import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **(environment or {})},
    )


def test_a_pipe_gets_one_plain_line_a_check() -> None:
    done = run("--quick")
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and not done.stderr
    assert "\x1b" not in done.stdout
    names = {line[10:28].strip() for line in lines[:-2]}
    assert {"python", "packages", "llama.cpp", "gpu", "memory", "threads", "heads", "model"} <= names
    assert {"terminal", "text", "settings", "chats", "learned", "catalogue", "chats folder"} <= names
    assert "answer" not in names


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere no variable moves the settings")
def test_json_is_one_object_and_a_fault_is_code_3(tmp_path: Path) -> None:
    folder = tmp_path / "specchat"
    folder.mkdir()
    (folder / "settings.toml").write_text("[look]\ntheme = 3\n")
    settings = {"XDG_CONFIG_HOME": str(tmp_path)}
    done = run("--quick", "--json", environment=settings)
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert report["ok"] is False
    checks = {each["name"]: each for each in report["checks"]}
    assert set(checks["settings"]) == {"name", "state", "finding", "advice"}
    assert checks["settings"]["state"] == "fault" and "line 2" in checks["settings"]["finding"]
    # One fault hides no other check.
    assert checks["llama.cpp"]["state"] in ("ok", "warning") and "learned" in checks


def test_a_model_is_tried_by_name(tmp_path: Path) -> None:
    """Lost otherwise: what its memory costs, before an evening with it."""
    path = write_architecture(tmp_path / "mamba.gguf", "mamba")
    checks = {each["name"]: each for each in json.loads(run("--json", str(path)).stdout)["checks"]}
    assert checks["model"]["finding"].endswith("mamba.gguf") and "mamba.gguf" in checks["answer"]["finding"]
    assert checks["rewind"]["finding"].startswith("copied state, ")
    done = run("--json", "nonsuch")
    checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert done.returncode == 3 and checks["model"]["state"] == "fault"
    assert "nonsuch" in checks["model"]["finding"] and not {"answer", "rewind"} & checks.keys()


def test_a_llama_cpp_that_kills_its_process_leaves_the_report_whole(tmp_path: Path) -> None:
    broken = tmp_path / "llama_cpp"
    broken.mkdir()
    (broken / "__init__.py").write_text("import os\nos.abort()\n")
    done = run("--json", environment={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3
    checks = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert checks["llama.cpp"]["state"] == "fault"
    assert "chats" in checks and "memory" in checks


def test_the_report_itself_loads_no_native_code() -> None:
    script = (
        "import sys; import app.commands.doctor; "
        "sys.exit(bool({'llama_cpp', 'textual', 'numpy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_80_columns_hang_and_commands_stay_whole() -> None:
    first, *rest = lines_of(WARNING, 80, colour=False)
    assert first.startswith("! warning gpu")
    *wrapped, command = rest
    assert all(len(line) < 80 for line in (first, *wrapped))
    assert all(line.startswith(" " * 28) for line in wrapped)
    assert command == WARNING.command
    assert len(lines_of(WARNING, None, colour=False)) == 1


def test_foreign_text_is_cleaned_in_both() -> None:
    for text in ("\n".join(lines_of(FAULT, 80, colour=False)), *lines_of(FAULT, None, colour=False)):
        assert "\x1b" not in text and "gone for good" in text
    assert "gone for good" in json.loads(as_json([FAULT]))["checks"][0]["finding"]


def test_the_last_line_says_whether_one_can_chat() -> None:
    assert summary_of([]) == "All is well."
    assert summary_of([WARNING]) == "You can chat; 1 warning above."
    assert summary_of([FAULT, FAULT, WARNING]) == "You cannot chat: 2 faults above."


def test_colour_only_colours_the_sign() -> None:
    plain, coloured = (lines_of(FAULT, 80, colour=colour) for colour in (False, True))
    assert coloured[0].startswith("\x1b[31m✗ fault") and plain[0] in coloured[0].replace(
        "\x1b[31m", ""
    ).replace("\x1b[0m", "")


def test_versions_are_compared_as_numbers() -> None:
    required = [("numpy", "1.26"), ("textual", "8.2")]
    good = judge([("numpy", "10.0"), ("textual", "8.2.0")], required, HOST)
    assert good.state == "ok"
    bad = judge([("numpy", "1.9.5"), ("textual", None)], required, HOST)
    assert bad.state == "fault" and bad.command == 'pip install "numpy>=1.26" "textual>=8.2"'


def test_pythons_that_cannot_do_it() -> None:
    assert python_check(HOST, bits=32).state == "fault"
    translated = Host((3, 12, 0), "darwin", "x86_64", "pip install")
    assert python_check(translated, kernel="Darwin Kernel RELEASE_ARM64_T6000").state == "warning"
    assert python_check(Host((3, 15, 0), "linux", "x86_64", "pip"), kernel="x").state == "warning"


def test_an_unknown_option_is_a_sentence() -> None:
    from app.errors import UsageError

    with pytest.raises(UsageError):
        main(["--nonsense"])
