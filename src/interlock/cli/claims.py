"""`interlock claim`: use a grant once, for an action that the caller runs itself.

It exits with 0 if, and only if, a use was claimed, so a script can rely on the exit code alone.
"""

from __future__ import annotations

from argparse import Namespace
from shlex import quote
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, wants_json
from interlock.cli.output import safe, say, say_json
from interlock.cli.values import json_or_text, json_value, pair

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.grants import GrantClaim

_EXITS = """\
exit codes:
  0     one use was taken: act now, once
  3     no grant fits (stderr says why); do not act
  5     busy: try again; do not act
  6     out of reach or unknown; do not act. Asking again with the same
        --execution-id tells, and takes no second use
  else  1 error, 2 wrong usage; do not act
"""


def declare_claim() -> Parser:
    """The options of `interlock claim`."""
    parser = Parser(
        "interlock claim",
        description="Find a grant that fits and take one use of it. To have a command run under one, use `exec`.",
        examples=(
            "interlock claim deploy --arg env=production",
            "interlock claim refund --args '{\"amount_cents\": 400}' --execution-id refund:4711",
        ),
        more=_EXITS,
    )
    parser.add_argument("task", metavar="TASK", help="what is about to be done")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--arg", type=_argument, action="append", default=[], metavar="NAME=VALUE",
        help="an argument that the grant's pins are checked against, as JSON or text; repeatable",
    )  # fmt: skip
    what.add_argument(
        "--args",
        type=json_value,
        metavar="JSON",
        help="all arguments as one JSON object; also @FILE, or - for stdin",
    )
    parser.add_argument(
        "--execution-id", metavar="ID", help="your own name for it: a repeat gets the same use (default: new)"
    )
    parser.add_argument("--grant", metavar="ID", help="this grant and no other")
    parser.add_argument("--signed", action="store_true", help="only a signed one")
    parser.add_argument(
        "--group", action="append", metavar="GROUP", help="only by a person in this group; repeatable"
    )
    return finished(parser, run_claim)


def run_claim(args: Namespace) -> int:
    """Take one use, or say why not."""
    from interlock.cli.connection import connected
    from interlock.kernel.ids import new_id

    execution_id = new_id("exec") if args.execution_id is None else args.execution_id
    with connected(args) as client:
        claim = _claimed(client, args, execution_id)
    if wants_json(args):
        _say_answer(claim, execution_id)
        return Exit.DONE if claim.claimed else Exit.DENIED
    if not claim.claimed:
        raise _refused(args.task, claim.reason or "no grant fits")
    _tell(claim, args.task, execution_id)
    return Exit.DONE


def _claimed(client: Interlock, args: Namespace, execution_id: str) -> GrantClaim:
    from interlock.sdk.outcomes import Ambiguous

    try:
        return client.claim_grant(
            args.task,
            args=_arguments(args),
            execution_id=execution_id,
            grant_id=args.grant,
            signed=args.signed or None,
            groups=args.group,
        )
    except Ambiguous as lost:
        tells = (
            f"the same command with --execution-id {quote(execution_id)} tells, and cannot take a second use"
        )
        raise Failed(
            f"a use may have been taken: {lost.problem.detail or lost.code}; {tells}",
            Exit.UNAVAILABLE,
            name=lost.code,
            problem={"execution_id": execution_id},
        ) from lost


def _arguments(args: Namespace) -> Any:
    if args.args is not None:
        return args.args
    arguments = dict(args.arg)
    if len(arguments) != len(args.arg):
        raise Failed("one argument is given twice; keep one of them", Exit.USAGE, name="usage")
    return arguments


def _argument(text: str) -> tuple[str, Any]:
    """`env=production`; a value is JSON if it is JSON, else text."""
    name, value = pair(text)
    return name, json_or_text(value)


def _say_answer(claim: GrantClaim, execution_id: str) -> None:
    from msgspec import to_builtins

    answer = {name: value for name, value in to_builtins(claim).items() if value is not None}
    say_json({**answer, "execution_id": execution_id})


def _tell(claim: GrantClaim, task: str, execution_id: str) -> None:
    use = f"use {claim.use} of {claim.grant_id}, fence {claim.fence}"
    say(f"claimed {safe(task)} as {safe(execution_id)}: {use}")


def _refused(task: str, reason: str) -> Failed:
    advice = f"One that fits is issued with `interlock grant {quote(task)}`"
    detail = f"no grant was claimed for {task}: {reason}. {advice}"
    return Failed(detail, Exit.DENIED, name="not_claimed", problem={"task": task, "reason": reason})
