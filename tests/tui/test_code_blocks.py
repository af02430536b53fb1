"""Code blocks: without these a person copies another text than the one that was shown."""

import pytest

from app.tui.transcript.code_blocks import CodeBlock, code_blocks


@pytest.mark.parametrize(
    ("answer", "blocks"),
    [
        ("No code.", []),
        ("```python\nx = 1\n\ny = 2\n```\n", [CodeBlock("python", "x = 1\n\ny = 2")]),
        ("~~~ {.sh} title\nls\n~~~\n", [CodeBlock("sh", "ls")]),
        ("```\na\n```\ntext\n```js\nb\n```", [CodeBlock("", "a"), CodeBlock("js", "b")]),
        ("1. do\n\n   ```sh\n   ls\n     -l\n   ```\n", [CodeBlock("sh", "ls\n  -l")]),
        ("> ```\n> quoted\n> ```\n", [CodeBlock("", "quoted")]),
        ("text\n\n    indented\n", [CodeBlock("", "indented")]),
    ],
)
def test_every_block_is_found_as_it_is(answer: str, blocks: list[CodeBlock]) -> None:
    assert code_blocks(answer) == blocks


def test_a_block_that_was_cut_can_be_copied() -> None:
    """Else: code of a stopped reply must be typed off the screen."""
    assert code_blocks("```py\nx = 1\ny =") == [CodeBlock("py", "x = 1\ny =")]


def test_what_a_terminal_acts_on_does_not_reach_the_clipboard() -> None:
    """Else: a paste into a shell runs what was never seen."""
    assert code_blocks("```\nls\x1b[2J\u202e\n```") == [CodeBlock("", "ls[2J")]
