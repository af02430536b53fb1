"""Taking a file away from the cache of Hugging Face, and nothing else."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from app.errors import SpecchatError
from app.models.catalogue import Part
from app.models.hub import Hub, Shelf, check_part, file_lock, hub_of, target_of, unlink


def remove(part: Part, hub: Hub | None = None) -> int:
    """Take the file away, in every revision that is here; how many bytes that frees.

    Only what lies in the cache goes, never what a link there leads to outside. What another file is
    linked to stays. Raises SpecchatError where the system does not let it go.
    """
    check_part(part)
    shelf = Shelf(hub or hub_of(os.environ), part)
    if not _inside(shelf.folder, shelf.hub.cache):
        raise SpecchatError(f"{shelf.folder} leads outside of the cache: remove {part.file} there yourself.")
    try:
        return _remove(shelf)
    except OSError as error:
        raise SpecchatError(
            f"{part.file} cannot be removed ({error.strerror}): end what uses it, or look who owns it, "
            "and try again."
        ) from error


def _remove(shelf: Shelf) -> int:
    freed = shelf.drop_partials()
    for commit in shelf.commits():
        pointer = shelf.pointer(commit)
        if not os.path.lexists(pointer) or not _inside(pointer.parent, shelf.folder):
            continue
        blob = target_of(pointer)
        freed += unlink(pointer)
        snapshots = shelf.folder / "snapshots"
        for parent in pointer.parents:
            if parent == snapshots or any(parent.iterdir()):
                break
            parent.rmdir()
        if blob is not None and blob.parent == shelf.folder / "blobs" and blob not in _linked(snapshots):
            freed += _remove_blob(shelf, blob)
    if not shelf.commits():
        _clear(shelf.folder)
    return freed


def _remove_blob(shelf: Shelf, blob: Path) -> int:
    """Take bytes away that nothing is linked to any more; how many that frees."""
    store = target_of(blob)
    freed = unlink(blob)
    unlink(shelf.verified_note(blob.name))
    if store is None or store.parent.parent != shelf.hub.cache / "blobs":
        return freed
    # Newer versions of huggingface_hub keep some bytes once for all repositories. Its lock keeps a new
    # link from being made meanwhile.
    with shelf.lock(blob.name, lambda: None), file_lock(store.with_name(f"{store.name}.lock")):
        if not any(target_of(other) == store for other in shelf.hub.cache.glob("*--*/blobs/*")):
            freed += unlink(store)
            unlink(store.with_name(f"{store.name}.refs"))
    return freed


def _linked(snapshots: Path) -> set[Path | None]:
    """What the files of all revisions are linked to."""
    return {target_of(Path(at, name)) for at, _, names in os.walk(snapshots) for name in names}


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _clear(folder: Path) -> None:
    """Take a repository's folder away that holds no file any more, unless something foreign is in it."""
    shutil.rmtree(folder / ".no_exist", ignore_errors=True)
    shutil.rmtree(folder / "refs", ignore_errors=True)
    for each in ("snapshots", "blobs", "."):
        with suppress(OSError):
            (folder / each).rmdir()
