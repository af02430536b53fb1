"""What a chat template is given: who said what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation.

    `token_ids` are those that the model generated for an assistant's message, without its end token;
    empty where they are unknown (a person's message, an imported conversation).
    """

    role: Role
    content: str
    token_ids: tuple[int, ...] = ()
