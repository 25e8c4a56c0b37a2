"""`interlock hook git`: a git hook that reports what commits and merges change."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, as_json, told, wants_json

MARK = "# interlock: report changed paths"
# A commit has happened when these run, so they never fail it, and are not patient.
LINES = {
    "post-commit": "interlock touch --commit HEAD --patience 3s >/dev/null || true",
    "post-merge": "interlock touch --since ORIG_HEAD --patience 3s >/dev/null || true",
}


def declare_hook() -> Parser:
    """The options of `interlock hook …`."""
    parser = Parser(
        "interlock hook",
        description="Report what git commits and merges change, so that whoever works on it learns of it.",
        examples=("interlock hook git", "interlock hook git --install"),
    )
    verbs = parser.add_subparsers(metavar="git", required=True, parser_class=Parser)
    git = verbs.add_parser("git", **told("hooks for this git repository: print them, or put them in place"))
    git.add_argument("--install", action="store_true", help="write post-commit and post-merge hooks")
    as_json(git)
    git.set_defaults(run=run_git)
    return parser


def run_git(args: Namespace) -> int:
    """Print the hooks, or install them."""
    from interlock.cli.output import say, say_json

    if not args.install:
        _print(args)
        return Exit.DONE
    folder = _hooks_folder()
    installed = [str(_install(folder / name, line)) for name, line in LINES.items()]
    if wants_json(args):
        say_json({"installed": installed})
    else:
        say(
            *(f"wrote {path}" for path in installed),
            "They report to INTERLOCK_URL with INTERLOCK_KEY, or to the store in this folder.",
        )
    return Exit.DONE


def _print(args: Namespace) -> None:
    from interlock.cli.output import say, say_json

    if wants_json(args):
        say_json({name: _script(line) for name, line in LINES.items()})
        return
    for name, line in LINES.items():
        say(f"# .git/hooks/{name}", *_script(line).splitlines(), "")
    say("# `interlock hook git --install` puts them in place")


def _hooks_folder() -> Path:
    from interlock.cli.touch import hooks_folder

    return hooks_folder(Path.cwd())


def _install(hook: Path, line: str) -> Path:
    """Write one hook. One that somebody else wrote is kept: the line to add is shown instead."""
    if hook.exists() and MARK not in hook.read_text(errors="replace"):
        raise Failed(f"{hook} exists; add this line to it yourself: {line}")
    hook.parent.mkdir(parents=True, exist_ok=True)
    hook.write_text(_script(line))
    hook.chmod(0o755)
    return hook


def _script(line: str) -> str:
    return f"#!/bin/sh\n{MARK}\n{line}\n"
