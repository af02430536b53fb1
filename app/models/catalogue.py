"""The catalogue, `models.toml`: names for targets and the drafts that go with them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Entry:
    """A target and its draft: repositories and files on Hugging Face, sizes in GB."""

    repository: str
    file: str
    size: float
    draft_repository: str
    draft_file: str
    draft_size: float
    memory: float
    licence: str
    revision: str | None = None
    draft_revision: str | None = None


@cache
def catalogue() -> dict[str, Entry]:
    """The shipped catalogue by name. In a wheel it lies beside this file, in a checkout at the top."""
    here = Path(__file__).parent
    shipped = here / "models.toml"
    path = shipped if shipped.exists() else here.parents[1] / "models.toml"
    with path.open("rb") as file:
        return {name: Entry(**fields) for name, fields in tomllib.load(file).items()}
