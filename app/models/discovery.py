"""GGUF files that other programs keep on this disk: how each program lays them out and calls them."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from app.models.disk_search import Found, PathParts, Search, first_bytes
from app.models.hub import HubFile
from app.models.places import Layout, Place, places
from app.models.row import UnusableFile

_MOST_BYTES = 1 << 20  # of a manifest or settings file
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MODEL_PATH = re.compile(r"^model_path:[ \t]*(['\"]?)(.+?)\1[ \t]*\r?$", re.MULTILINE)
_OLLAMA = "application/vnd.ollama.image."
_OLLAMA_HOST, _OLLAMA_NAMESPACE = "registry.ollama.ai", "library"


def discover(places: Sequence[Place]) -> tuple[list[Found], list[UnusableFile]]:
    """Every model in `places`, in their order, and what was left out. Only first bytes of files are read."""
    search = Search()
    for place in places:
        _READERS[place.layout](search, place)
    return search.found, search.unusable


def discover_here(folders: Sequence[Path] = ()) -> tuple[list[Found], list[UnusableFile]]:
    """The same for every place of this machine, and `folders`."""
    return discover(places(os.environ, Path(os.path.expanduser("~")), sys.platform, folders))


def same_file(part: HubFile, found: Sequence[Found]) -> Path | None:
    """The file of Hugging Face where another program keeps it under that name; None where none does."""
    name = f"{part.repository}:{part.file}"
    # The catalogue's size is rounded; a file of less than half of it was cut.
    return next((each.path for each in found if each.name == name and 2 * each.size > part.size), None)


def _read(path: Path | str) -> bytes:
    """The file's bytes; b"" where it is no file, too long for what it should be, or cannot be read."""
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
            return b""
        return first_bytes(path, about.st_size)
    except (OSError, ValueError):
        return b""


def _read_json(path: Path | str) -> Mapping[str, object]:
    """The object in a JSON file, {} where none can be read."""
    try:
        value = json.loads(_read(path))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _absolute(value: object) -> Path | None:
    """The path that a program's file names; None where it is not absolute."""
    if not isinstance(value, str) or "\0" in value:
        return None
    try:
        os.fsencode(value)
    except UnicodeError:
        return None
    return Path(value) if os.path.isabs(value) else None


def _tree_names(parts: PathParts) -> PathParts:
    """A file by its own name, or as the hub calls it where the folders are those of its cache."""
    for at, folder in enumerate(parts[:-3]):
        if folder.startswith("models--") and parts[at + 1] == "snapshots":
            repository = _repository(folder)
            file = "/".join(parts[at + 3 :])
            return f"{repository}:{file}", f"{repository}@{parts[at + 2][:7]}:{file}"
    return parts[-1], "/".join(parts)


def _repository(folder: str) -> str:
    return folder.removeprefix("models--").replace("--", "/", 1)


def _lm_studio_names(parts: PathParts) -> PathParts:
    if len(parts) < 3:
        return parts[-1], "/".join(parts)
    return (f"{parts[0]}/{parts[1]}:{'/'.join(parts[2:])}",)


def _jan_names(parts: PathParts) -> PathParts:
    return ("/".join(parts[:-1] if len(parts) > 1 and parts[-1].lower() == "model.gguf" else parts),)


def _downloads(search: Search, place: Place) -> None:
    for folder, parts, files in search.folders(place.path, place):
        for file in files:
            if len(parts) >= 3 and file.endswith(".incomplete"):
                inner = "/".join((*parts[3:], file.removesuffix(".incomplete")))
                name = f"{parts[0]}/{parts[1]}:{inner}"
                reason = f"{name} is not downloaded whole; run: specchat pull {name}"
                search.leave_out(Path(folder, file), place.origin, reason)


def _tree(search: Search, place: Place) -> None:
    if os.path.isdir(place.path / "manifests") and os.path.isdir(place.path / "blobs"):
        _ollama(search, Place("Ollama", "ollama", place.path))
    search.walk(place.path, place, _tree_names)


def _flat(search: Search, place: Place) -> None:
    search.walk(place.path, place, _tree_names, deep=False)


def _hub(search: Search, place: Place) -> None:
    for name in search.listed(place.path, place)[1]:
        if name.startswith("models--"):
            _hub_repository(search, place, name)


def _hub_repository(search: Search, place: Place, name: str) -> None:
    repository = place.path / name
    snapshots = repository / "snapshots"
    commits = search.listed(snapshots, place)[1]
    if len(commits) > 1:
        # The plain name is for the commit that the repository's main branch had when last asked.
        main = os.fsdecode(_read(repository / "refs" / "main")).strip()
        commits.sort(key=lambda commit: commit != main)
    for commit in commits:
        search.walk(snapshots / commit, place, _tree_names, above=(name, "snapshots", commit))
    # The hub's library gives a file its name when it is whole, so the repository's must do here.
    if name.lower().endswith("-gguf"):
        for blob in search.listed(repository / "blobs", place)[0]:
            if blob.endswith(".incomplete"):
                reason = f"{_repository(name)} holds a file that is not downloaded whole; fetch it again."
                search.leave_out(repository / "blobs" / blob, place.origin, reason)


def _lm_studio(search: Search, place: Place) -> None:
    search.walk(place.path / "models", place, _lm_studio_names)
    chosen = _absolute(_read_json(place.path / "settings.json").get("downloadsFolder"))
    if chosen is not None:
        search.walk(chosen, place, _lm_studio_names)


def _lm_studio_pointer(search: Search, place: Place) -> None:
    home = _absolute(os.fsdecode(_read(place.path)).strip())
    if home is not None:
        _lm_studio(search, Place(place.origin, "lm-studio", home))


def _ollama(search: Search, place: Place) -> None:
    tags = [
        (*parts, tag)
        for _, parts, files in search.folders(place.path / "manifests", place)
        if len(parts) == 3
        for tag in files
        if not tag.startswith(".")
    ]
    # A model of several tags is called by the one that says most.
    for tag in sorted(tags, key=lambda each: (each[3] == "latest", len(_ollama_name(*each)), each)):
        _ollama_model(search, place, tag)


def _ollama_name(host: str, namespace: str, model: str, tag: str) -> str:
    if host != _OLLAMA_HOST:
        return f"{host}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace == _OLLAMA_NAMESPACE else f"{namespace}/{model}:{tag}"


def _ollama_model(search: Search, place: Place, tag: PathParts) -> None:
    name = _ollama_name(*tag)
    manifest = os.path.join(place.path, "manifests", *tag)
    layers = _read_json(manifest).get("layers")
    digests: dict[object, list[object]] = {}
    for layer in layers if isinstance(layers, list) else []:
        if isinstance(layer, dict):
            digests.setdefault(str(layer.get("mediaType")), []).append(layer.get("digest"))
    models = digests.get(f"{_OLLAMA}model", [])
    match = _DIGEST.fullmatch(models[0]) if models and isinstance(models[0], str) else None
    blob = os.path.join(place.path, "blobs", f"sha256-{match[1]}") if match else None
    if not isinstance(layers, list) or (models and blob is None):
        reason = f"{name} has a manifest that is damaged; run: ollama pull {name}"
    elif blob is None:
        reason = f"{name} has no GGUF file on this disk: Ollama runs it elsewhere or in another format."
    elif len(models) > 1:
        reason = (
            f"{name} is split into several files, which Ollama's names do not join; download it elsewhere."
        )
    elif f"{_OLLAMA}adapter" in digests:
        reason = f"{name} is an adapter (LoRA) on another model, which is not supported; choose that model."
    elif not os.path.lexists(blob):
        reason = f"{name} is not downloaded whole; run: ollama pull {name}"
    else:
        search.take(blob, place.origin, (name,))
        return
    search.leave_out(manifest, place.origin, reason)


def _jan_settings(search: Search, place: Place) -> None:
    data = _absolute(_read_json(place.path / "settings.json").get("data_folder")) or place.path / "data"
    _jan(search, Place(place.origin, "jan", data))


def _jan(search: Search, place: Place) -> None:
    folders = list(search.folders(place.path / "llamacpp" / "models", place))
    for folder, parts, files in folders:
        # A model that was imported stays where it was, and this file names it.
        if parts and "model.yml" in files:
            _jan_import(search, place, Path(folder, "model.yml"), "/".join(parts))
    for folder, parts, files in folders:
        search.take_files(folder, files, place.origin, _jan_names, parts)


def _jan_import(search: Search, place: Place, description: Path, name: str) -> None:
    match = _MODEL_PATH.search(_read(description).decode(errors="surrogateescape"))
    if match is None:
        return
    path = _absolute(match[2].replace("\\\\", "\\") if match[1] == '"' else match[2])
    if path is None:
        return  # within Jan's folder, where it is found by itself
    if os.path.exists(path):
        search.take(os.fspath(path), place.origin, (name,))
    else:
        reason = f"{name} was imported from {path}, which is gone; import it again."
        search.leave_out(description, place.origin, reason)


_READERS: Mapping[Layout, Callable[[Search, Place], None]] = {
    "hub": _hub,
    "flat": _flat,
    "tree": _tree,
    "downloads": _downloads,
    "lm-studio": _lm_studio,
    "lm-studio-pointer": _lm_studio_pointer,
    "ollama": _ollama,
    "jan": _jan,
    "jan-settings": _jan_settings,
}
