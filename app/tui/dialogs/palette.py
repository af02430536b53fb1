"""Textual's command palette, for people who type faster than it is drawn."""

from __future__ import annotations

from textual import on
from textual.command import CommandList, CommandPalette
from textual.events import Mount
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, OptionList


class ActionPalette(CommandPalette):
    """Takes no keys once it has closed, none for its list before that is laid out, and does not open as the
    app ends: each would be a fault to Textual."""

    def on_mount(self, event: Mount) -> None:
        if not self.is_attached:
            event.prevent_default()

    async def mount_composed_widgets(self, widgets: list[Widget]) -> None:
        if self.is_attached:
            await super().mount_composed_widgets(widgets)

    @on(Input.Changed)
    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _too_late(self, event: Message) -> None:
        if not self.is_active:
            event.stop()
            event.prevent_default()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The list is hidden until commands are found."""
        if action == "command_list" and not any(each.size for each in self.query(CommandList)):
            return False
        return super().check_action(action, parameters)
