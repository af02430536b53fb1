"""Removes a file from the cache of Hugging Face, and nothing else."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from app.errors import SpecchatError
from app.models.hub import (
    CachedFile,
    Hub,
    HubFile,
    check_hub_file,
    file_lock,
    hub_of,
    remove_empty,
    target_of,
    unlink,
)


def remove(part: HubFile, hub: Hub | None = None) -> int:
    """Remove the file, in every revision that is here; how many bytes that frees.

    Only what lies in the cache goes, never what a link there leads to outside. What another file is
    linked to stays. Raises SpecchatError where the system does not allow it.
    """
    check_hub_file(part)
    file = CachedFile(hub or hub_of(os.environ), part)
    if not _inside(file.folder, file.hub.cache):
        raise SpecchatError(f"{file.folder} leads outside of the cache: remove {part.file} there yourself.")
    try:
        return _remove(file)
    except OSError as error:
        raise SpecchatError(
            f"{part.file} cannot be removed ({error.strerror}): end what uses it, or look who owns it, "
            "and try again."
        ) from error


def _remove(file: CachedFile) -> int:
    freed = file.drop_partials()
    snapshots = file.folder / "snapshots"
    for commit in file.commits():
        pointer = file.pointer(commit)
        if not os.path.lexists(pointer) or not _inside(pointer.parent, file.folder):
            continue
        blob = target_of(pointer)
        freed += unlink(pointer)
        remove_empty(pointer.parent, snapshots)
        linked = {target_of(Path(at, name)) for at, _, names in os.walk(snapshots) for name in names}
        if blob is not None and blob.parent == file.folder / "blobs" and blob not in linked:
            freed += _remove_blob(file, blob)
    if not file.commits():
        # The repository's folder goes as well, unless something foreign is in it.
        shutil.rmtree(file.folder / ".no_exist", ignore_errors=True)
        shutil.rmtree(file.folder / "refs", ignore_errors=True)
        for each in ("snapshots", "blobs", "."):
            with suppress(OSError):
                (file.folder / each).rmdir()
    return freed


def _remove_blob(file: CachedFile, blob: Path) -> int:
    """Remove bytes that nothing is linked to any more; how many that frees."""
    store = target_of(blob)
    freed = unlink(blob)
    note = file.verified_note(blob.name)
    unlink(note)
    remove_empty(note.parent, file.hub.own)
    if store is None or store.parent.parent != file.hub.cache / "blobs":
        return freed
    # Newer versions of huggingface_hub keep some bytes once for all repositories. Its lock keeps a new
    # link from being made meanwhile.
    with file.lock(blob.name, lambda: None), file_lock(store.with_name(f"{store.name}.lock")):
        if not any(target_of(other) == store for other in file.hub.cache.glob("*--*/blobs/*")):
            freed += unlink(store)
            unlink(store.with_name(f"{store.name}.refs"))
    return freed


def _inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())
