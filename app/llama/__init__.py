"""The only code that touches llama_cpp: models, contexts, requantising, native logs."""

from app.llama.context import Cancelled, Context, ContextSettings
from app.llama.model import MemoryShort, Model, ModelSettings, VocabularyFacts

__all__ = [
    "Cancelled",
    "Context",
    "ContextSettings",
    "MemoryShort",
    "Model",
    "ModelSettings",
    "VocabularyFacts",
]
