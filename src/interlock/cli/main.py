"""`interlock`: finds the command, imports only its module, and runs it.

Start-up time matters: a hook runs this before every action of an agent. Nothing heavier than the argument parser is
imported here, and each command imports what it needs when it needs it.
"""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import GLOBAL_FLAGS, GLOBAL_OPTIONS, Parser, Run, wants_json


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
            Entry(
                "submit", "jobs", "submit a job; the policy decides, and people where the policy asks them"
            ),
            Entry("jobs", "jobs", "list jobs"),
            Entry("job", "jobs", "show one job, and its history"),
            Entry("cancel", "jobs", "cancel a job that has not ended"),
            Entry("retry", "jobs", "let a job that failed for good run again"),
        ),
    ),
    Section(
        "Decide",
        (
            Entry("approvals", "approvals", "list requests that wait for approval"),
            Entry("review", "review", "decide one waiting request after another, on a terminal"),
            Entry("approval", "approvals", "show everything needed to decide on one job"),
            Entry("approve", "decisions", "approve exactly one request"),
            Entry("reject", "decisions", "reject a request, with a reason"),
            Entry("refresh", "decisions", "evaluate a request again under the policy in force"),
            Entry("edit", "decisions", "change a request; its votes are cleared"),
            Entry("withdraw", "decisions", "withdraw your own approval, within the grace period"),
            Entry("comment", "decisions", "comment on a request"),
            Entry("ask", "decisions", "ask the submitter of a request a question"),
            Entry("grants", "grants", "list grants"),
            Entry("grant", "grants", "allow a task a limited number of times; show one grant"),
            Entry("revoke", "grants", "end a grant; uses that were claimed stay claimed"),
        ),
    ),
    Section(
        "Share work",
        (
            Entry("board", "board", "watch leases, waiting callers, conflicts and runs"),
            Entry("leases", "leases", "list leases"),
            Entry("lease", "leases", "take a resource, keep it, hand it over"),
            Entry("effects", "effects", "list side effects and their outcomes"),
            Entry("effect", "effects", "begin an effect that must happen once, and record its outcome"),
            Entry("touch", "touch", "report files or other targets that you changed"),
            Entry("targets", "conflicts", "list changed targets, and who changed them"),
            Entry("target", "conflicts", "show who holds a target and what waits for it"),
            Entry("conflicts", "conflicts", "list conflicts, or which of them recur"),
            Entry("conflict", "conflicts", "show or resolve a conflict"),
            Entry("hook", "touch", "report what git commits and merges change"),
        ),
    ),
    Section(
        "Rules and records",
        (
            Entry("policy", "policy", "check, apply, show, test and roll back the policy"),
            Entry("workflows", "workflows", "list workflows"),
            Entry("workflow", "workflows", "define, show and delete a workflow"),
            Entry("runs", "runs", "list runs"),
            Entry("run", "runs", "start a run, keep its slot, end it, follow its steps"),
            Entry("limits", "limits", "list how many runs may be active at once"),
            Entry("limit", "limits", "show, set or clear one limit"),
            Entry("traffic", "limits", "show how starts of runs ended"),
            Entry("audit", "events", "list audit entries: who did what"),
            Entry("events", "events", "show events, past and as they happen"),
            Entry("webhooks", "webhooks", "list webhooks"),
            Entry("webhook", "webhooks", "post events to an address, signed"),
            Entry("principals", "keys", "list people and programs that may call"),
            Entry("principal", "keys", "show a principal, or change what it may do"),
            Entry("keys", "keys", "list API keys"),
            Entry("key", "keys", "create, show and revoke API keys"),
            Entry("sessions", "sessions", "list the sessions of the console"),
            Entry("session", "sessions", "show or end a session"),
            Entry("signers", "signers", "list the keys that people sign grants with"),
            Entry("signer", "signers", "register, show and revoke such a key"),
            Entry("signing-keys", "signers", "list the keys that sign permits"),
            Entry("signing-key", "signers", "show or rotate the key that signs permits"),
        ),
    ),
    Section(
        "Run",
        (
            Entry("init", "init", "make a store, a policy and an example in this folder"),
            Entry("serve", "serve", "run the server"),
            Entry("login", "login", "keep a server and your key for your commands"),
            Entry("logout", "login", "forget the server and the key that you logged in with"),
            Entry("whoami", "login", "say who you are, and where"),
            Entry("open", "sessions", "open the console in the browser, signed in"),
            Entry("exec", "exec", "run a command once, under a grant or an approval"),
            Entry("claim", "claims", "claim one use of a grant, for an action that you run yourself"),
            Entry("worker", "worker", "run a command for each job that may run"),
            Entry("doctor", "doctor", "look for problems, and say how to fix them"),
            Entry("settings", "settings", "show what a server runs with"),
            Entry("drill", "drill", "rehearse a failure on a deployment, and check that it holds"),
            Entry(
                "demo",
                "interlock.demo.performance",
                "show what Interlock does, scene by scene, on a temporary store",
            ),
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


_HELP = ("help", "-h", "--help")
_STDIN, _STDOUT, _STDERR = 0, 1, 2
STOPPED_BY_HAND = 130  # what shells report for SIGINT


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the result is its exit code."""
    if None in (sys.stdin, sys.stdout, sys.stderr):
        _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        # What a terminal cannot show is spelled out: it must not stop a command that has done its work.
        # The reader of a pipe sees each line at once, as on a terminal.
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace", line_buffering=True)
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
        if argv is None:
            gc.freeze()  # The process ends: to look through all of it for garbage once more only takes time.
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return STOPPED_BY_HAND
    except BrokenPipeError:
        # The reader left (`| head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.ERROR
    except SystemExit as asked:
        return asked.code if isinstance(asked.code, int) else Exit.DONE
    return code


def _run(words: list[str]) -> int:
    if garbled := _garbled(words):
        print(f"interlock: {garbled!r} is not text in UTF-8; write it in UTF-8", file=sys.stderr)
        return Exit.USAGE
    before, words = _leading(words)
    if before is None:
        return _complain_about(words[0] if words else "")
    if not words or words[0] in _HELP:
        about = [word for word in words if word not in _HELP]
        return _run([*about, "--help"]) if about else _say_commands()
    if words[0] in ("-V", "--version"):
        words[0] = "version"
    entry = find(words[0])
    if entry is None:
        return _complain_about(words[0])
    as_json = wants_json(before) or "--json" in _ours(words)
    try:
        args = parser_of(entry).parse_args(words[1:], before)
        if getattr(args, "uses_login", False):
            from interlock.cli.login import use_login

            use_login(args)
        run: Run = args.run
        return run(args)
    except Failed as failed:
        from interlock.cli.output import complain

        complain(failed, as_json=as_json)
        return failed.exit


def _open_closed_streams() -> None:
    """Let what was closed when we started lead nowhere. Whatever is opened next, the way to a server even, would be in
    its place, and would get what we and the command say."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= _STDERR:
        pass
    os.close(opened)
    sys.stdin = sys.stdin or os.fdopen(_STDIN)
    sys.stdout = sys.stdout or os.fdopen(_STDOUT, "w")
    sys.stderr = sys.stderr or os.fdopen(_STDERR, "w")


def _garbled(words: list[str]) -> str | None:
    """A word that is no text in UTF-8 and names no file."""
    found = (word for word in _ours(words) if any("\udc80" <= char <= "\udcff" for char in word))
    return next((word for word in found if not os.access(word.removeprefix("@"), os.F_OK)), None)


def _ours(words: list[str]) -> list[str]:
    """The words without what comes after `--`, which is for another program."""
    return words[: words.index("--")] if "--" in words else words


def parser_of(entry: Entry) -> Parser:
    """The parser of one command."""
    module = import_module(entry.module if "." in entry.module else f"interlock.cli.{entry.module}")
    declare: Callable[[], Parser] = getattr(module, f"declare_{entry.name.replace('-', '_')}")
    return declare()


def _leading(words: list[str]) -> tuple[Namespace | None, list[str]]:
    """The shared options before the command's name, and the rest; None if one of them lacks its value."""
    before = Namespace()
    while words and words[0].startswith("--") and words[0] not in ("--help", "--version"):
        name, equals, value = words[0].partition("=")
        if name in GLOBAL_FLAGS and not equals:
            setattr(before, name[2:], True)
            words = words[1:]
        elif name in GLOBAL_OPTIONS and (equals or len(words) > 1):
            setattr(before, name[2:].replace("-", "_"), value if equals else words[1])
            words = words[1:] if equals else words[2:]
        else:
            return None, words
    return before, words


def _say_commands() -> int:
    print("interlock: who may act, on exactly what, exactly once\n")
    print("usage: interlock [--url URL] [--api-key KEY] [--store URL] COMMAND …\n")
    for section in SECTIONS:
        print(f"{section.title}:")
        for known in section.entries:
            print(f"  {known.name:<14}{known.summary}")
        print()
    print(
        "`interlock COMMAND --help` says more. New here? `interlock demo` takes about 15 seconds and leaves no trace."
    )
    return Exit.DONE


def _complain_about(word: str) -> int:
    from difflib import get_close_matches

    names = [entry.name for section in SECTIONS for entry in section.entries]
    close = get_close_matches(word, names, 1)
    meant = f"did you mean `interlock {close[0]}`?" if close else "`interlock --help` lists the commands"
    wrong = "is not an option here, or needs a value" if word.startswith("-") else "is not a command"
    print(f"interlock: {word!r} {wrong}; {meant}", file=sys.stderr)
    return Exit.USAGE


if __name__ == "__main__":
    sys.exit(main())
