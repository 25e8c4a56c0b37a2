"""The options that describe an action, for whoever submits it or asks what the policy would say."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from interlock.cli.options import Parser
from interlock.cli.values import pair

PRIORITIES = ("low", "normal", "high", "critical")


def describing(parser: Parser) -> None:
    """Add what the policy looks at, beside topic and payload."""
    parser.add_argument("--env", help="where it happens, such as production")
    parser.add_argument("--channel", help="which way it goes, such as external")
    parser.add_argument(
        "--label",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fact about it; repeatable",
    )
    parser.add_argument(
        "--risk", action="append", default=[], metavar="WORD", help="a risk it has, such as money; repeatable"
    )
    parser.add_argument("--priority", choices=PRIORITIES, metavar="WORD", help=", ".join(PRIORITIES))


def described(args: Namespace) -> dict[str, Any]:
    """What was given of it, as fields of a job."""
    fields = {
        "env": args.env,
        "channel": args.channel,
        "labels": dict(args.label) or None,
        "risk": args.risk or None,
        "priority": args.priority,
    }
    return {name: value for name, value in fields.items() if value is not None}
