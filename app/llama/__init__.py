"""The only code that touches llama_cpp: models, contexts, requantising, native logs."""

from app.llama.threads import bound_spinning

# Before any file of this folder loads llama.cpp, which reads this once.
bound_spinning()
