"""From settings to an engine: models and contexts opened as memory allows, and proposers beside them."""
