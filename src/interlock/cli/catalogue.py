"""Every command, the module it lives in, and one line about it.

`main` reads this table and imports one module, so that a command costs no more than it needs.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One command. `module` is below `interlock.cli` and has a function `declare_<name>`."""

    name: str
    module: str
    summary: str


class Section(NamedTuple):
    """Commands that belong together on the first page."""

    title: str
    entries: tuple[Entry, ...]


SECTIONS: tuple[Section, ...] = (
    Section(
        "Propose and follow actions",
        (
            Entry("submit", "submitting", "propose an action; policy, and people where it asks, decide"),
            Entry("jobs", "jobs", "list proposed actions"),
            Entry("job", "jobs", "show one action, and what happened to it"),
            Entry("cancel", "jobs", "withdraw an action that has not run"),
            Entry("retry", "work", "put an action that failed for good back to work"),
        ),
    ),
    Section(
        "Decide",
        (
            Entry("approvals", "approvals", "list what waits for people"),
            Entry("approval", "approvals", "show everything needed to decide on one action"),
            Entry("approve", "deciding", "say yes to exactly one request"),
            Entry("reject", "deciding", "say no, and why"),
            Entry("refresh", "deciding", "put a request back on the policy now in force"),
            Entry("edit", "deciding", "change a request; votes are cleared"),
        ),
    ),
    Section(
        "Rules and records",
        (
            Entry("policy", "policy", "check, apply, show, test and roll back the policy"),
            Entry("audit", "audit", "list who did what"),
            Entry("events", "events", "show what happens, as it happens"),
            Entry("webhooks", "webhooks", "send events to an address, signed"),
            Entry("key", "keys", "create, list and revoke keys"),
            Entry("keys", "work", "show or rotate the keys that sign permits"),
        ),
    ),
    Section(
        "Run",
        (
            Entry("serve", "serve", "run the server"),
            Entry("worker", "worker", "run a command for each approved action"),
            Entry("doctor", "doctor", "look for trouble, and say what to do about it"),
            Entry("demo", "demo", "play the story of one payment on a temporary store"),
            Entry("completion", "completion", "print a completion script for bash, zsh or fish"),
            Entry("version", "version", "print the version"),
        ),
    ),
)


def entries() -> tuple[Entry, ...]:
    """Every command, in the order of the first page."""
    return tuple(entry for section in SECTIONS for entry in section.entries)


def find(name: str) -> Entry | None:
    """The command of this name."""
    return next((entry for entry in entries() if entry.name == name), None)
