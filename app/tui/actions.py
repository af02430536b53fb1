"""Everything a person can do from the chat, once: bindings, palette, help, slash commands and README's
table of keys are all made from this table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """name: of the method action_<name> of the app, and in the settings' [keys].

    keys: the default ones, comma separated, "" for none. short: label at the foot of the screen, "" to
    stay out of it. slash: the word after / that does the same, "" for none.
    """

    name: str
    keys: str
    summary: str
    group: str
    short: str = ""
    slash: str = ""


ACTIONS: tuple[Action, ...] = (
    Action("help", "f1", "Show this help", "App", "help", "help"),
    Action("stop", "escape", "Stop the reply; what came so far is kept", "Chat", "stop"),
    Action("next_proposer", "f2", "Next proposer, in mid-reply too", "Speculation", "proposer"),
    Action("automatic_k", "f3", "Draft length: automatic or the last fixed one", "Speculation", "k"),
    Action("longer_k", "ctrl+up", "Draft one token more", "Speculation"),
    Action("shorter_k", "ctrl+down", "Draft one token less; below 1 is automatic", "Speculation"),
    Action("colours", "f4", "Mark accepted drafts, then rejected ones too, then none", "View", "colours"),
    Action("compare", "f5", "Run the last prompt with each proposer", "Speculation", "compare", "compare"),
    Action("panel", "f6", "Show or hide the speculation panel", "View", "panel"),
    Action("explore", "shift+f5", "Explore when speculation pays", "Speculation", "", "explore"),
    Action("drafts", "f7", "Load or unload a draft model", "Speculation", "draft", "draft"),
    Action("models", "shift+f7", "Choose a model, or download one", "Chat", "", "models"),
    Action("sessions", "f8", "Sessions: open, search, rename, delete", "Chat", "sessions", "sessions"),
    Action("settings", "f9", "Settings", "App", "settings", "settings"),
    Action("explain", "shift+f6", "What each figure of the panel means", "View", "", "explain"),
    Action("regenerate", "ctrl+r", "Answer the last message again", "Chat", "", "regenerate"),
    Action("continue_reply", "ctrl+l", "Go on with a reply that was cut short", "Chat", "", "continue"),
    Action("edit_last", "ctrl+t", "Edit the last message and send it again", "Chat", "", "edit"),
    Action("copy_answer", "ctrl+o", "Copy the last answer", "Chat", "", "copy"),
    Action("copy_code", "ctrl+b", "Copy the last code block; again: the one before", "Chat", "", "code"),
    Action("new_chat", "ctrl+n", "Begin a new chat", "Chat", "", "new"),
    Action("attach", "", "Attach a document: /file PATH, or @PATH in the text", "Chat", "", "file"),
    Action("export", "", "Write the chat to a Markdown file: /export PATH", "Chat", "", "export"),
    Action("thoughts", "ctrl+g", "Unfold or fold the model's thoughts", "View"),
    Action("page_up", "pageup", "Scroll the conversation up", "View"),
    Action("to_end", "ctrl+end", "Go to the end of the conversation and follow it", "View"),
    Action("page_down", "pagedown", "Scroll the conversation down", "View"),
    Action("command_palette", "ctrl+p", "All commands", "App", "commands"),
    Action("suspend_process", "ctrl+z", "Suspend; fg brings it back", "App"),
    Action("leave", "ctrl+q,ctrl+c", "Leave; Ctrl+C copies or clears first", "App", "", "quit"),
)  # fmt: skip

BY_NAME = {action.name: action for action in ACTIONS}
