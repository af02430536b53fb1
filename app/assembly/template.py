"""The chat template that a model is used with."""

from __future__ import annotations

from app.chat.template import Template, named_template
from app.errors import SpecchatError
from app.llama.model import Model


def template_for(model: Model, name: str | None = None) -> Template:
    """The chat template of that name or path, else the one in the model's file.

    Raises SpecchatError where there is none, UsageError for an unknown name.
    """
    source = named_template(name) if name else model.chat_template
    if source is None:
        raise SpecchatError(
            f"{model.path.name} has no chat template: name one with --template, such as chatml."
        )
    return Template(source, model.token_text(model.bos), model.token_text(model.vocabulary.eos))
