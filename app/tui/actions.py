"""Everything a person can do in the chat. Keys, palette, help, slash commands and README's table of keys
are made from this table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from app.config.values import ThemeName


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do. `SpecchatApp` says by the same names how each is done.

    name: also the one in the settings' [keys]. keys: the default ones, comma separated, "" for none; laptops,
    tmux, macOS and terminals keep some for themselves. short: label in the footer, "" to stay out of it.
    slash: the command that does the same. takes: what may follow that command; choices: all that it can be,
    where these are few.
    """

    name: str
    keys: str
    summary: str
    group: str
    short: str = ""
    slash: str = ""
    takes: str = ""
    choices: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The slash command as it is typed, "" for none."""
        return f"/{self.slash} {self.takes}".rstrip() if self.slash else ""


ACTIONS: tuple[Action, ...] = (
    Action("help", "f1", "Show this help", "App", "help", "help"),
    Action("stop", "escape", "Stop the reply; what came so far is kept", "Chat", "stop", "stop"),
    Action("next_proposer", "f2", "Next proposer, or the one named, at any time",
            "Speculation", "proposer", "proposer", "NAME"),
    Action("automatic_k", "f3", "Draft length: automatic, fixed, or N",
            "Speculation", "k", "k", "N"),
    Action("longer_k", "ctrl+up", "Draft one token more", "Speculation", "", "longer"),
    Action("shorter_k", "ctrl+down", "Draft one token less; below 1 is automatic",
            "Speculation", "", "shorter"),
    Action("colours", "f4", "Mark drafts: accepted, rejected too, or none",
            "View", "colours", "colours"),
    Action("compare", "f5", "Run the last prompt with each proposer", "Speculation", "compare", "compare"),
    Action("panel", "f6", "Show or hide the speculation panel", "View", "panel", "panel"),
    Action("explore", "shift+f5", "Explore when speculation pays", "Speculation", "", "explore"),
    Action("drafts", "f7", "Load or unload a draft model", "Speculation", "draft", "draft"),
    Action("models", "shift+f7", "Choose a model, or download one", "Chat", "", "models"),
    Action("sessions", "f8", "Sessions: open, search, rename, delete", "Chat", "sessions", "sessions"),
    Action("settings", "f9", "Change the settings", "App", "settings", "settings"),
    Action("explain", "shift+f6", "Explain each figure of the panel", "View", "", "explain"),
    Action("regenerate", "ctrl+r", "Answer the last message again", "Chat", "", "regenerate"),
    Action("continue_reply", "ctrl+l", "Go on with a reply that was cut short", "Chat", "", "continue"),
    Action("edit_last", "ctrl+t", "Edit the last message and send it again", "Chat", "", "edit"),
    Action("previous_version", "alt+p", "Previous version of the last message", "Chat", "", "previous"),
    Action("next_version", "alt+n", "Next version of the last message", "Chat", "", "next"),
    Action("delete_version", "", "Delete the shown version of the last message", "Chat", "", "delete"),
    Action("copy_answer", "ctrl+o", "Copy the last answer", "Chat", "", "copy"),
    Action("copy_code", "ctrl+b", "Copy the last code block, then earlier ones", "Chat", "", "code"),
    Action("new_chat", "ctrl+n", "Begin a new chat", "Chat", "", "new"),
    Action("attach", "", "Attach a document, as @PATH in the text does", "Chat", "", "file", "PATH"),
    Action("export", "", "Write the chat to a Markdown file", "Chat", "", "export", "PATH"),
    Action("temperature", "", "Set the sampling temperature, and save it", "Chat", "", "temperature", "N"),
    Action("thoughts", "ctrl+g", "Unfold or fold the model's thoughts", "View", "", "thoughts"),
    Action("fold", "", "Unfold or fold the long messages in view", "View", "", "fold"),
    Action("page_up", "pageup,alt+up", "Scroll the conversation up", "View", "", "up"),
    Action("page_down", "pagedown,alt+down", "Scroll the conversation down", "View", "", "down"),
    Action("to_end", "ctrl+end", "Go to the end and follow what comes", "View", "", "end"),
    Action("theme", "", "Set the colours of the screen, and save them",
            "View", "", "theme", "NAME", get_args(ThemeName)),
    Action("screenshot", "", "Write a picture of the screen to a file", "View", "", "screenshot", "PATH"),
    Action("command_palette", "ctrl+p", "Search all commands", "App", "commands", "commands"),
    Action("suspend_process", "ctrl+z", "Suspend; type fg to come back", "App", "", "suspend"),
    Action("leave", "ctrl+c", "Copy what is selected or clear the prompt; twice: quit", "App"),
    Action("quit", "ctrl+q", "Quit", "App", "", "quit"),
)  # fmt: skip

BY_NAME = {action.name: action for action in ACTIONS}
