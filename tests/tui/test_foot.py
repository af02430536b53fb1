"""The keys at the foot: else a person sees half a key, or cannot find help."""

from __future__ import annotations

from pathlib import Path

from app.config.values import Settings
from app.tui.actions import ACTIONS
from app.tui.foot import FIRST
from app.tui.keys import shown_key
from tests.tui.chatting import NARROW, chatting, run

LABELS = [f"{shown_key(action.keys)} {action.short}" for action in ACTIONS if action.short]


def test_every_key_of_the_foot_has_its_place_in_the_order_of_need() -> None:
    assert sorted(FIRST) == sorted(action.name for action in ACTIONS if action.short)


def test_keys_are_shown_whole_or_not_at_all_whatever_the_width(tmp_path: Path) -> None:
    async def body() -> None:
        async with chatting(tmp_path, size=NARROW) as chat:
            shown = []
            for width in (80, 48, 61, 100, 113, 140, 80):
                await chat.pilot.resize_terminal(width, 24)
                await chat.settle()
                foot = chat.text.splitlines()[-1].strip()
                shown.append([label for label in LABELS if label in foot])
                # Nothing else, and nothing twice.
                assert " ".join(shown[-1]) == foot, foot
                assert {"F1 help", "Esc stop", "Ctrl+P commands"} <= set(shown[-1])
            assert shown[0] == shown[-1] and "F5 compare" in shown[0]
            assert len(shown[1]) < len(shown[0]) < len(LABELS) and shown[5] == LABELS

    run(body)


def test_keys_of_ones_own_are_measured_too(tmp_path: Path) -> None:
    async def body() -> None:
        settings = Settings(keys={"next_proposer": "ctrl+alt+shift+pagedown", "help": "alt+h"})
        async with chatting(tmp_path, settings, size=NARROW) as chat:
            foot = chat.text.splitlines()[-1].strip()
            assert "Alt+H help" in foot and "Ctrl+P commands" in foot
            assert "+PgDn proposer" in foot and len(foot) <= 78

    run(body)
