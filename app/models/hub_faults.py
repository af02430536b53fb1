"""What goes wrong between here and the hub: what is tried again, and what is said of the rest."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime

from app.errors import SpecchatError
from app.models.hub import Hub, HubFile

_RATE_LIMIT_RESET = re.compile(r";\s*t\s*=\s*(\d+)")


class NoNetworkError(SpecchatError):
    """The hub cannot be reached."""


class MissingError(SpecchatError):
    """The hub has no such repository, revision or file."""


class StoppedError(SpecchatError):
    """The download was stopped on request; what has come is kept."""

    exit_code = 130


class Retryable(Exception):
    """A fault that may pass. error: what to say if it does not; wait: seconds that the hub asks for."""

    def __init__(self, error: SpecchatError, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long (seconds) is waited. tries: in a row that brought nothing.

    first_pause doubles with each of them; longest: the most that the hub may ask for.
    """

    tries: int = 5
    tries_to_reach: int = 2
    first_pause: float = 1.0
    longest: float = 600.0
    sleep: Callable[[float], None] = time.sleep


def network_errors() -> tuple[type[Exception], ...]:
    """All that a request can raise. The HTTP library beneath the hub's changes its name with its versions."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    base = next(each for each in HfHubHTTPError.__mro__ if each.__name__ == "HTTPError")
    return (base, OfflineModeIsEnabled, HFValidationError)


def fault_of(error: Exception, part: HubFile, hub: Hub) -> SpecchatError | Retryable:
    """What to raise for one of `network_errors`: the sentence for it, or Retryable where it may pass."""
    from huggingface_hub import errors

    repository, page = part.repository, f"{hub.endpoint}/{part.repository}"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return NoNetworkError(
            f"HF_HUB_OFFLINE is set, so {part.file} is not looked for: unset it to download."
        )
    if isinstance(error, errors.HFValidationError):
        return SpecchatError(f"{repository!r} is no name of a repository: write it as org/repo.")
    if not isinstance(error, errors.HfHubHTTPError):
        return Retryable(
            NoNetworkError(
                f"{hub.endpoint} cannot be reached for {part.file} ({error}). Look at the connection, then "
                "give the same command again: it goes on where it was."
            )
        )
    status = error.response.status_code
    # A store that the hub had redirected to refuses an address that has grown too old.
    redirected = bool(error.response.history)
    if isinstance(error, errors.GatedRepoError) or (status == 403 and not redirected):
        return SpecchatError(
            f"{repository} is only for those who accept its licence: accept it at {page}, run "
            "`hf auth login`, then this command again. Or pull the file from a repository that does not ask."
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return MissingError(f"{repository} has no revision {part.revision or 'main'}: see {page}.")
    if isinstance(error, errors.RepositoryNotFoundError):
        return MissingError(
            f"There is no repository {repository} at {hub.endpoint}, or it is private: look at its name, "
            "or run `hf auth login`."
        )
    if status == 401 and not redirected:
        return SpecchatError(
            f"{hub.endpoint} refuses the token that is stored here: run `hf auth login`, or unset HF_TOKEN."
        )
    if status in (404, 410) and not redirected:
        return MissingError(f"{repository} has no file {part.file}: see what it has at {page}.")
    if isinstance(error, errors.DisabledRepoError):
        return MissingError(f"{repository} was switched off by the hub: pull another.")
    if status == 429:
        wait = retry_after(error.response.headers, datetime.now(timezone.utc))
        asked = f" It asks for {wait:.0f} s." if wait else ""
        said = f"{hub.endpoint} answers no requests for now.{asked} Wait, then give the same command again."
        return Retryable(SpecchatError(said), wait)
    said = f"{hub.endpoint} answered {part.file} with the fault {status}"
    if status >= 500 or status == 408 or redirected:
        return Retryable(SpecchatError(f"{said}, again and again. Try later: what has come is kept."))
    return SpecchatError(f"{said}: see {page}.")


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """How many seconds the hub asks to wait, by either of its headers; None where it does not say."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    if text:
        try:
            return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
        except (ValueError, TypeError):
            return None
    reset = _RATE_LIMIT_RESET.search(headers.get("RateLimit", ""))
    return float(reset[1]) if reset else None
