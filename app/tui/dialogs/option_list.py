"""Textual's OptionList, for keys that come at any time."""

from __future__ import annotations

from contextlib import suppress

from textual.widgets import OptionList


class PagedList(OptionList):
    """Its page keys do nothing before it has been laid out: Textual's raise KeyError, which ends the app."""

    def action_page_up(self) -> None:
        with suppress(KeyError):
            super().action_page_up()  # type: ignore[no-untyped-call]

    def action_page_down(self) -> None:
        with suppress(KeyError):
            super().action_page_down()  # type: ignore[no-untyped-call]
