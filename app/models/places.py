"""Where programs keep GGUF files. Nothing here reads a disk: `app.models.discovery` sees what is there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Layout: TypeAlias = Literal[
    "hub",  # models--org--repo/snapshots/<commit>/<file>
    "flat",  # files of the folder itself
    "tree",  # files anywhere below the folder
    "downloads",  # what has come of files: <org>/<repo>/<etag>/<file>.incomplete
    "lm-studio",  # a home of LM Studio: models/<publisher>/<model>/<file>, or where its settings say
    "lm-studio-pointer",  # a file that names such a home
    "ollama",  # manifests/<host>/<namespace>/<model>/<tag> and blobs/sha256-<hex>
    "jan",  # a data folder of Jan: llamacpp/models/<id>/model.gguf
    "jan-settings",  # the folder whose settings.json names the data folder; else it is data/ in it
]

# Ollama installed as a service of Linux runs as a user of its own, with this home.
_OLLAMA_SERVICE = Path("/usr/share/ollama/.ollama/models")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


@dataclass(frozen=True, slots=True)
class Place:
    """A folder to look into. origin: what a person is told. named: a person named it, and is told when it is
    not there."""

    origin: str
    layout: Layout
    path: Path
    named: bool = False


def hub_folders(environment: Mapping[str, str], home: Path) -> tuple[Path, Path]:
    """The folder in which huggingface_hub keeps files, and the one that it gives specchat for its own.

    Both lie on one disk, unless HF_HUB_CACHE or HF_ASSETS_CACHE moves one of them.
    """

    def given(*names: str) -> Path | None:
        found = (_expanded(environment.get(name, ""), environment, home) for name in names)
        return next((path for path in found if path), None)

    # The library goes by XDG_CACHE_HOME on every platform.
    root = given("HF_HOME") or (given("XDG_CACHE_HOME") or home / ".cache") / "huggingface"
    cache = given("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") or root / "hub"
    return cache, (given("HF_ASSETS_CACHE") or root / "assets") / "specchat"


def places(
    environment: Mapping[str, str], home: Path, platform: str, folders: Sequence[Path] = ()
) -> tuple[Place, ...]:
    """Every place to look into, programs first, then `folders` of the person's. platform: "linux", "darwin"
    or "win32", as sys.platform has it.

    A file that can be reached through several is called as the first of them calls it.
    """

    def given(name: str) -> Path | None:
        return _expanded(environment.get(name, ""), environment, home)

    if platform == "win32":
        local = given("LOCALAPPDATA") or home / "AppData" / "Local"
        cache, shared, own = local, given("APPDATA") or home / "AppData" / "Roaming", local
    elif platform == "darwin":
        shared = home / "Library" / "Application Support"
        cache, own = home / "Library" / "Caches", given("XDG_DATA_HOME") or shared
    else:
        shared = given("XDG_DATA_HOME") or home / ".local" / "share"
        cache, own = given("XDG_CACHE_HOME") or home / ".cache", shared

    hub, notes = hub_folders(environment, home)
    found = [Place("Hugging Face", "hub", hub), Place("specchat downloads", "downloads", notes / "downloads")]

    llama = given("LLAMA_CACHE")
    if llama is not None:
        # Newer releases lay it out as the hub's cache; older ones put files into it.
        found += [Place("llama.cpp", "hub", llama), Place("llama.cpp", "flat", llama)]
    found.append(Place("llama.cpp", "flat", cache / "llama.cpp"))

    found.append(Place("LM Studio", "lm-studio-pointer", home / ".lmstudio-home-pointer"))
    found += [
        Place("LM Studio", "lm-studio", lm_home)
        for lm_home in (home / ".lmstudio", home / ".cache" / "lm-studio")
    ]

    found.append(Place("Ollama", "ollama", given("OLLAMA_MODELS") or home / ".ollama" / "models"))
    if platform == "linux":
        found.append(Place("Ollama", "ollama", _OLLAMA_SERVICE))

    jan = given("JAN_DATA_FOLDER")
    found.append(Place("Jan", "jan", jan) if jan else Place("Jan", "jan-settings", shared / "Jan"))

    found.append(Place("specchat", "tree", own / "specchat" / "models"))
    for folder in folders:
        path = _expanded(str(folder), {}, home) or folder
        found.append(Place(str(folder), "tree", path, named=True))
    return tuple(dict.fromkeys(found))


def _expanded(value: str, environment: Mapping[str, str], home: Path) -> Path | None:
    """The path that a variable's value names; None where it is empty.

    The hub's library expands variables and `~` itself, so such values work there.
    """
    value = _VARIABLE.sub(lambda match: environment.get(match[1] or match[2], match[0]), value.strip())
    if value == "~" or value.startswith(("~/", "~\\")):
        return home / value[2:]
    return Path(value) if value else None
