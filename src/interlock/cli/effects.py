"""`interlock effects` and `effect`: side effects and their outcomes, and how to settle an ambiguous one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from shlex import quote
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, Verb, as_json, connecting, holding, paging, told, wants_json
from interlock.cli.values import json_value, some_seconds

if TYPE_CHECKING:
    from interlock.wire.effects import BeginEffectBody, EffectGrantBody, EffectLeaseBody, EffectTargetBody
    from interlock.wire.fields import Body

_BEGIN_EXITS = """\
exit codes:
  0 act now, once; anything else: do not act. 3 done before (its result is printed) or not permitted,
  1 the id, the lease or the target does not allow it, 5 somebody else is at it, 6 out of reach or unknown
"""


def declare_begin(parser: ArgumentParser) -> None:
    """What is to be done, and what must hold for it: all of it is checked in the decision that begins it."""
    parser.add_argument("id", metavar="ACTION_ID", help="your own name for the action, such as refund:4711")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--request", type=json_value, metavar="JSON", help="what is to be done")
    what.add_argument("--request-hash", metavar="HASH", help="a hash of your own over it")
    parser.add_argument("--ttl", type=some_seconds, metavar="60s", help="how long it may take (default 60s)")
    parser.add_argument(
        "--grant", metavar="TASK", help="only if a grant for this task fits; one use is taken"
    )
    parser.add_argument("--grant-args", type=json_value, metavar="JSON", help="(default: the request)")
    parser.add_argument("--grant-id", metavar="ID", help="with --grant: this one and no other")
    parser.add_argument("--signed", action="store_true", help="with --grant: only a signed one")
    parser.add_argument("--lease", metavar="ID", help="only while this lease is yours; needs --fence")
    parser.add_argument("--fence", type=int, metavar="N", help="the lease's fence")
    parser.add_argument("--session", metavar="NAME", help="the session that the lease was acquired with")
    parser.add_argument("--target", metavar="KEY", help="what it changes; needs --version")
    parser.add_argument("--version", metavar="VERSION", help="the version that it was prepared for")
    parser.add_argument("--job", metavar="ID", help="only while this job is yours")
    parser.add_argument("--permit", metavar="TOKEN", help="the permit that came with the job")


def declare_commit(parser: ArgumentParser) -> None:
    """It happened."""
    _settling(parser)
    parser.add_argument("--result", type=json_value, metavar="JSON", help="what a repeat shall return")


def declare_fail(parser: ArgumentParser) -> None:
    """It did not happen, or nobody can tell."""
    _settling(parser)
    parser.add_argument("--error", required=True, metavar="TEXT", help="what went wrong")
    parser.add_argument(
        "--safe-to-retry", action="store_true", help="it surely did not happen (default: nobody can tell)"
    )


def run_begin(args: Namespace) -> int:
    """Take the right to act, or say why not."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_effect
    from interlock.wire.effects import Effect

    body = _begin_body(args)
    with connected(args) as client:
        begun: Any = client.call("POST", "effects", args.id, "begin", body=body)
    effect = typed(begun, Effect)
    if wants_json(args):
        say_json(begun)
    elif effect.replayed:
        say_effect(effect)
        say("", "it was done before, so there is nothing to do")
    else:
        _tell_begun(effect)
    return Exit.DENIED if effect.replayed else Exit.DONE


def run_commit(args: Namespace) -> int:
    """Say that it happened."""
    from interlock.wire.effects import CommitEffectBody

    return _settled(args, "commit", CommitEffectBody(fence=args.fence, result=args.result))


def run_fail(args: Namespace) -> int:
    """Say that it did not happen, or that nobody can tell."""
    from interlock.wire.effects import FailEffectBody

    body = FailEffectBody(fence=args.fence, error=args.error, safe_to_retry=args.safe_to_retry)
    return _settled(args, "fail", body)


def _settled(args: Namespace, verb: str, body: Body) -> int:
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_effect
    from interlock.wire.effects import Effect

    with connected(args) as client:
        after: Any = client.call("POST", "effects", args.id, verb, body=body)
    effect = typed(after, Effect)
    if wants_json(args):
        say_json(after)
    elif effect.state == "COMMITTED":
        say(f"{effect.action_id} is COMMITTED; a repeat returns its result and does nothing")
    elif effect.state == "FAILED":
        say(f"{effect.action_id} is FAILED; it may be begun again")
    else:
        say_effect(effect)
    return Exit.DONE


def _tell_begun(effect: Any) -> None:
    from interlock.cli.output import exactly, safe, say

    name = quote(effect.action_id)
    say(
        f"{safe(effect.action_id)} is yours until {exactly(effect.expires_at)}: do it now, once, and hand "
        f"{effect.downstream_key} to the remote side. Then one of",
        f"  interlock effect commit {name} --fence {effect.fence} --result JSON",
        f"  interlock effect fail {name} --fence {effect.fence} --error TEXT [--safe-to-retry]",
    )


def _begin_body(args: Namespace) -> BeginEffectBody:
    from interlock.wire.effects import BeginEffectBody

    return BeginEffectBody(
        request_hash=_hash_of(args.request) if args.request_hash is None else args.request_hash,
        ttl_seconds=args.ttl,
        grant=_grant(args),
        lease=_lease(args),
        target=_target(args),
        job_id=args.job,
        permit=args.permit,
    )


def _hash_of(request: Any) -> str:
    """The same name that `il.effect_scope(…, request=…)` gives it: a program may finish what a shell began."""
    from interlock.sdk.once import hash_of_request

    return hash_of_request({"request": request})


def _grant(args: Namespace) -> EffectGrantBody | None:
    from interlock.sdk.calls import given
    from interlock.wire.effects import EffectGrantBody

    if args.grant is None:
        if args.grant_id or args.grant_args is not None or args.signed:
            raise Failed("name the task that the grant is for with --grant TASK", Exit.USAGE)
        return None
    permitted = args.request if args.grant_args is None else args.grant_args
    return given(EffectGrantBody, task=args.grant, grant_id=args.grant_id, signed=args.signed, args=permitted)


def _lease(args: Namespace) -> EffectLeaseBody | None:
    from interlock.wire.effects import EffectLeaseBody

    if (args.lease is None) != (args.fence is None) or (args.session and args.lease is None):
        raise Failed("a lease takes --lease ID and --fence N; acquiring it printed both", Exit.USAGE)
    if args.lease is None:
        return None
    return EffectLeaseBody(id=args.lease, fence=args.fence, session=args.session or "")


def _target(args: Namespace) -> EffectTargetBody | None:
    from interlock.wire.effects import EffectTargetBody

    if (args.target is None) != (args.version is None):
        raise Failed("a target takes --target KEY and --version; `interlock target KEY` shows it", Exit.USAGE)
    return None if args.target is None else EffectTargetBody(key=args.target, version=args.version)


def _settling(parser: ArgumentParser) -> None:
    holding(parser, "the action's own id", metavar="ACTION_ID", fence="the attempt's, as `begin` printed it")


VERBS = (
    Verb("begin", "take the right to do it, once", declare_begin, run_begin, more=_BEGIN_EXITS),
    Verb("commit", "say that it happened", declare_commit, run_commit),
    Verb("fail", "say that it did not happen, or that nobody can tell", declare_fail, run_fail),
)


STATES = ("IN_PROGRESS", "COMMITTED", "FAILED", "AMBIGUOUS")


def declare_effects() -> Parser:
    """The options of `interlock effects`."""
    parser = Parser(
        "interlock effects",
        description="List side effects, newest first.",
        examples=("interlock effects --state AMBIGUOUS", "interlock effects --json"),
    )
    parser.add_argument("--state", type=str.upper, choices=STATES, metavar="STATE", help=", ".join(STATES))
    paging(parser)
    _ends(parser, run_effects)
    return parser


def declare_effect() -> Parser:
    """The options of `interlock effect …`."""
    parser = Parser(
        "interlock effect",
        description="Begin a side effect that must happen once, say how it ended, or show what became of it.",
        examples=(
            'interlock effect begin refund:4711 --request \'{"txn": "4711"}\' --grant finance.refund',
            'interlock effect commit refund:4711 --fence 1 --result \'{"receipt": "r1"}\'',
            "interlock effect show refund:4711",
            "interlock effect resolve refund:4711 committed --evidence 'bank statement 12, line 3'",
            "interlock effect resolve refund:4711 not_committed --evidence 'unknown to the bank'",
        ),
    )
    names = "begin|commit|fail|show|resolve"
    verbs = parser.add_subparsers(metavar=names, required=True, parser_class=Parser)
    for attempt in VERBS:
        verb = verbs.add_parser(attempt.name, **told(attempt.summary), more=attempt.more)
        attempt.declare(verb)
        _ends(verb, attempt.run)
    show = verbs.add_parser("show", **told("what became of it"))
    show.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    _ends(show, run_show)
    resolve = verbs.add_parser("resolve", **told("say what happened, and how you know"))
    resolve.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    resolve.add_argument("outcome", choices=("committed", "not_committed"))
    resolve.add_argument("--evidence", required=True, metavar="TEXT", help="how you know; it is kept")
    resolve.add_argument("--result", type=json_value, metavar="JSON", help="what a repeat shall return")
    _ends(resolve, run_resolve)
    return parser


def run_effects(args: Namespace) -> int:
    """List effects."""
    from interlock.cli.connection import connected, listing, more, typed
    from interlock.cli.output import say, say_json
    from interlock.cli.shared_page import say_effects
    from interlock.wire.effects import Effect

    with connected(args) as client:
        query = {"state": args.state}
        page = listing(client, "effects", limit=args.limit, cursor=args.cursor, query=query)
    if wants_json(args):
        say_json(page)
    elif page.items:
        say_effects(typed(page.items, list[Effect]))
        say(*filter(None, [more(page, "interlock effects", args, query)]))
    else:
        none = "no effects yet; `interlock effect begin`, or `il.once(…)` in the SDK, records them"
        say("no effects match" if args.state else none)
    return Exit.DONE


def run_show(args: Namespace) -> int:
    """Show one effect."""
    from interlock.cli.connection import connected, typed
    from interlock.cli.output import say_json
    from interlock.cli.shared_page import say_effect
    from interlock.wire.effects import Effect

    with connected(args) as client:
        found = client.call("GET", "effects", args.id)
    if wants_json(args):
        say_json(found)
    else:
        say_effect(typed(found, Effect))
    return Exit.DONE


def run_resolve(args: Namespace) -> int:
    """Say what became of an effect."""
    from interlock.cli.connection import connected
    from interlock.cli.output import say, say_json

    with connected(args) as client:
        effect = client.resolve_effect(args.id, args.outcome, evidence=args.evidence, result=args.result)
    if wants_json(args):
        say_json(effect)
    elif effect.state == "COMMITTED":
        say(f"{effect.action_id} is COMMITTED; a repeat returns its result and does nothing")
    else:
        say(f"{effect.action_id} is {effect.state}; one new attempt may begin")
    return Exit.DONE


def _ends(parser: ArgumentParser, run: object) -> None:
    as_json(parser)
    connecting(parser)
    parser.set_defaults(run=run)
