"""The table of commands: the module of each, and one line about it.

`main` reads this table and imports one module, so that a command loads no more than it needs.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One command. `module` is below `interlock.cli`, or a whole name, and has a function `declare_<name>`."""

    name: str
    module: str
    summary: str


class Section(NamedTuple):
    """Commands that belong together on the first page."""

    title: str
    entries: tuple[Entry, ...]


SECTIONS: tuple[Section, ...] = (
    Section(
        "Submit and follow jobs",
        (
            Entry("submit", "jobs", "submit a job; policy, and people where it asks, decide on it"),
            Entry("jobs", "jobs", "list jobs"),
            Entry("job", "jobs", "show one job, and what happened to it"),
            Entry("cancel", "jobs", "withdraw a job that is not done"),
            Entry("retry", "worker", "put a job that failed for good back to work"),
        ),
    ),
    Section(
        "Decide",
        (
            Entry("approvals", "approvals", "list what waits for people"),
            Entry("approval", "approvals", "show everything needed to decide on one job"),
            Entry("approve", "decisions", "say yes to exactly one request"),
            Entry("reject", "decisions", "say no, and why"),
            Entry("refresh", "decisions", "put a request back on the policy now in force"),
            Entry("edit", "decisions", "change a request; votes are cleared"),
            Entry("withdraw", "decisions", "take your own yes back, within the grace"),
            Entry("comment", "decisions", "say something about a request"),
            Entry("ask", "decisions", "ask whoever submitted a request something"),
            Entry("grant", "grants", "permit a task, so many times, until a moment"),
            Entry("grants", "grants", "list grants, or show one with its uses"),
            Entry("revoke", "grants", "end what is left of a grant"),
        ),
    ),
    Section(
        "Share work",
        (
            Entry("board", "board", "watch who owns what, what waits and what collided"),
            Entry("leases", "leases", "list who owns what"),
            Entry("lease", "leases", "take a resource, keep it, hand it on"),
            Entry("checkpoint", "leases", "show or record how far work under a lease has come"),
            Entry("effects", "effects", "list side effects and what became of them"),
            Entry("effect", "effects", "begin one that must happen once, and say what became of it"),
            Entry("touch", "touch", "report files or other targets that you changed"),
            Entry("targets", "conflicts", "list what was changed, and by whom"),
            Entry("target", "conflicts", "show who holds a target and what waits for it"),
            Entry("conflicts", "conflicts", "list what collided"),
            Entry("conflict", "conflicts", "show, settle and learn from collisions"),
            Entry("hook", "hook", "report what git commits and merges change"),
        ),
    ),
    Section(
        "Rules and records",
        (
            Entry("policy", "policy", "check, apply, show, test and roll back the policy"),
            Entry("workflows", "workflows", "list workflows"),
            Entry("workflow", "workflows", "define steps, follow a run of them, run it again"),
            Entry("audit", "events", "list who did what"),
            Entry("events", "events", "show what happens, as it happens"),
            Entry("webhooks", "webhooks", "send events to an address, signed"),
            Entry("key", "keys", "create, list and revoke keys"),
            Entry("sessions", "sessions", "list who is signed in to the console"),
            Entry("session", "sessions", "end a session"),
            Entry("signer", "signers", "register the keys that people sign grants with"),
            Entry("keys", "worker", "show or rotate the keys that sign permits"),
        ),
    ),
    Section(
        "Run",
        (
            Entry("init", "init", "make a store in this folder"),
            Entry("serve", "serve", "run the server"),
            Entry("open", "sessions", "open the console in the browser, signed in"),
            Entry("exec", "exec", "run a command once, under a grant or an approval"),
            Entry("claim", "claims", "take one use of a grant, for what you do yourself"),
            Entry("worker", "worker", "run a command for each job that may run"),
            Entry("doctor", "doctor", "look for trouble, and say what to do about it"),
            Entry("settings", "settings", "show what a server runs with"),
            Entry("runs", "runs", "list runs; take a slot, keep it, give it back"),
            Entry("run", "runs", "show one run"),
            Entry("limits", "limits", "show and set how many runs may be active at once"),
            Entry("drill", "drill", "play trouble on a deployment, and see whether it holds"),
            Entry("demo", "interlock.demo.command", "play a bad day, scene by scene, on a temporary store"),
            Entry("completion", "completion", "print a completion script for bash, zsh or fish"),
            Entry("version", "serve", "print the version"),
        ),
    ),
)


def entries() -> tuple[Entry, ...]:
    """Every command, in the order of the first page."""
    return tuple(entry for section in SECTIONS for entry in section.entries)


def find(name: str) -> Entry | None:
    """The command of this name."""
    return next((entry for entry in entries() if entry.name == name), None)
