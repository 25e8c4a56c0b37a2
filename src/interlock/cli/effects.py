"""`interlock effects` and `effect`: side effects and their outcomes, and how to settle an ambiguous one."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import (
    Noun,
    Parser,
    finished,
    in_session,
    paging,
    session_of,
)
from interlock.cli.output import (
    Cell,
    Table,
    exactly,
    one_line,
    safe,
    say,
    say_fields,
    when,
)
from interlock.cli.values import json_value, some_seconds

if TYPE_CHECKING:
    from interlock.wire.effects import (
        BeginEffectBody,
        Effect,
        EffectGrantBody,
        EffectLeaseBody,
        EffectTargetBody,
    )
    from interlock.wire.fields import Body

_STYLES = {"COMMITTED": "green", "IN_PROGRESS": "blue", "FAILED": "dim", "AMBIGUOUS": "red"}

_BEGIN_EXITS = """\
exit codes:
  0     act now, once
  1     the id, the lease or the target does not allow it; do not act
  3     done before (its result is printed), or not permitted; do not act
  5     another process is doing it; do not act
  6     out of reach, or its outcome is unknown; do not act
  else  2 wrong usage; do not act
"""


def _declare_begin(parser: Parser) -> None:
    """What is to be done, and what must hold for it: all of it is checked in the decision that begins it."""
    parser.add_argument("id", metavar="ACTION_ID", help="your own name for the action, such as refund:4711")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--request", type=json_value, metavar="JSON", help="the request; a repeat must pass the same"
    )
    what.add_argument(
        "--request-hash", metavar="HASH", help="your own hash of the request, in place of --request"
    )
    parser.add_argument("--ttl", type=some_seconds, metavar="60s", help="how long it may take (default 60s)")
    parser.add_argument(
        "--grant", metavar="TASK", help="only if a grant for this task fits; one use is taken"
    )
    parser.add_argument(
        "--grant-args",
        type=json_value,
        metavar="JSON",
        help="what pins are checked against (default: the request)",
    )
    parser.add_argument("--grant-id", metavar="ID", help="with --grant: this one and no other")
    parser.add_argument("--signed", action="store_true", help="with --grant: only a signed one")
    parser.add_argument("--lease", metavar="ID", help="only while this lease is yours; needs --fence")
    parser.add_argument("--fence", type=int, metavar="N", help="the lease's fence")
    in_session(parser)
    parser.add_argument("--target", metavar="KEY", help="what it changes; needs --version")
    parser.add_argument("--version", metavar="VERSION", help="the version that it was prepared for")
    parser.add_argument("--job", metavar="ID", help="only while this job is yours")
    parser.add_argument("--permit", metavar="TOKEN", help="the permit that came with the job")
    finished(parser, run_begin)


def run_begin(args: Namespace) -> int:
    """Take the right to act, or say why not."""
    from interlock.cli.connection import answer, connected, typed
    from interlock.wire.effects import Effect

    with connected(args) as client:
        begun: Any = client.call("POST", "effects", args.id, "begin", body=_begin_body(args))
    effect = typed(begun, Effect)
    answer(args, begun, lambda _: _tell_begun(effect))
    return Exit.DENIED if effect.replayed else Exit.DONE


def run_commit(args: Namespace) -> int:
    """Record that it happened."""
    from interlock.wire.effects import CommitEffectBody

    return _settled(args, "commit", CommitEffectBody(fence=args.fence, result=args.result))


def run_fail(args: Namespace) -> int:
    """Record that it did not happen, or may have happened."""
    from interlock.wire.effects import FailEffectBody

    body = FailEffectBody(fence=args.fence, error=args.error, safe_to_retry=args.safe_to_retry)
    return _settled(args, "fail", body)


def _settled(args: Namespace, verb: str, body: Body) -> int:
    from interlock.cli.connection import answer_call
    from interlock.wire.effects import Effect

    def tell(effect: Effect) -> None:
        if effect.state == "COMMITTED":
            say(f"{effect.action_id} is COMMITTED; a repeat returns its result and does nothing")
        elif effect.state == "FAILED":
            say(f"{effect.action_id} is FAILED; it may be begun again")
        else:
            say_effect(effect)

    return answer_call(args, "POST", "effects", args.id, verb, kind=Effect, tell=tell, body=body)


def _tell_begun(effect: Effect) -> None:
    if effect.replayed:
        say_effect(effect)
        say("", "it was done before, so there is nothing to do")
        return
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
    return EffectLeaseBody(id=args.lease, fence=args.fence, session=session_of(args))


def _target(args: Namespace) -> EffectTargetBody | None:
    from interlock.wire.effects import EffectTargetBody

    if (args.target is None) != (args.version is None):
        raise Failed("a target takes --target KEY and --version; `interlock target KEY` shows it", Exit.USAGE)
    return None if args.target is None else EffectTargetBody(key=args.target, version=args.version)


def _settling(parser: Parser) -> Parser:
    parser.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    fence = "the attempt's, as `begin` printed it"
    parser.add_argument("--fence", type=int, required=True, metavar="N", help=fence)
    return parser


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
    finished(parser, run_effects)
    return parser


def declare_effect() -> Parser:
    """The options of `interlock effect …`."""
    parser = Noun(
        "interlock effect",
        description="Begin a side effect that must happen once, record how it ended, or show its record.",
        examples=(
            'interlock effect begin refund:4711 --request \'{"txn": "4711"}\' --grant finance.refund',
            'interlock effect commit refund:4711 --fence 1 --result \'{"receipt": "r1"}\'',
            "interlock effect refund:4711",
            "interlock effect resolve refund:4711 committed --evidence 'bank statement 12, line 3'",
            "interlock effect resolve refund:4711 not_committed --evidence 'unknown to the bank'",
        ),
    )
    _declare_begin(parser.verb("begin", "take the right to do it, once", more=_BEGIN_EXITS))
    commit = _settling(parser.verb("commit", "record that it happened"))
    commit.add_argument("--result", type=json_value, metavar="JSON", help="the result that a repeat returns")
    finished(commit, run_commit)
    fail = _settling(parser.verb("fail", "record that it did not happen, or may have happened"))
    fail.add_argument("--error", required=True, metavar="TEXT", help="what went wrong")
    fail.add_argument(
        "--safe-to-retry",
        action="store_true",
        help="it certainly did not happen (default: it may have happened)",
    )
    finished(fail, run_fail)
    show = parser.verb("show", "show its record")
    show.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    finished(show, run_show)
    resolve = parser.verb("resolve", "record what happened, and how you know")
    resolve.add_argument("id", metavar="ACTION_ID", help="the action's own id")
    resolve.add_argument("outcome", choices=("committed", "not_committed"))
    resolve.add_argument("--evidence", required=True, metavar="TEXT", help="how you know; it is kept")
    resolve.add_argument("--result", type=json_value, metavar="JSON", help="the result that a repeat returns")
    finished(resolve, run_resolve)
    return parser


def run_effects(args: Namespace) -> int:
    """List effects."""
    from interlock.cli.connection import answer_list
    from interlock.wire.effects import Effect

    none = "no effects yet; `interlock effect begin` records one"
    return answer_list(
        args,
        "effects",
        kind=Effect,
        tell=say_effects,
        command="interlock effects",
        nothing="no effects match" if args.state else none,
        query={"state": args.state},
    )


def run_show(args: Namespace) -> int:
    """Show one effect."""
    from interlock.cli.connection import answer_call
    from interlock.wire.effects import Effect

    return answer_call(args, "GET", "effects", args.id, kind=Effect, tell=say_effect)


def run_resolve(args: Namespace) -> int:
    """Record whether an ambiguous effect happened."""
    from interlock.cli.connection import answer, connected

    def tell(effect: Effect) -> None:
        is_done = effect.state == "COMMITTED"
        then = "a repeat returns its result and does nothing" if is_done else "one new attempt may begin"
        say(f"{effect.action_id} is {effect.state}; {then}")

    with connected(args) as client:
        effect = client.resolve_effect(args.id, args.outcome, evidence=args.evidence, result=args.result)
    return answer(args, effect, tell)


def say_effects(effects: Sequence[Effect]) -> None:
    """A table of effects."""
    (
        Table(effects)
        .column("ACTION", lambda effect: effect.action_id, flexible=True)
        .column("STATE", _state)
        .column("ATTEMPT", lambda effect: str(effect.fence or "-"))
        .column("BY", lambda effect: effect.begun_by or "-", flexible=True, optional=True)
        .column("BEGUN", lambda effect: when(effect.begun_at))
        .column("ENDED", lambda effect: when(effect.ended_at), optional=True)
        .say()
    )


def say_effect(effect: Effect) -> None:
    """Everything about one effect, and what to do if its outcome is unknown."""
    said = effect.resolved
    say_fields(
        [
            ("action", safe(effect.action_id)),
            ("state", _state(effect)),
            ("attempt", f"{effect.fence or '-'}, by {safe(effect.begun_by or '-')} {when(effect.begun_at)}"),
            ("in time", f"until {exactly(effect.expires_at)}" if effect.state == "IN_PROGRESS" else ""),
            ("remote key", effect.downstream_key),
            ("job", effect.job_id or ""),
            (
                "grant",
                f"{effect.grant.id}, use {effect.grant.use} for {effect.grant.task}" if effect.grant else "",
            ),
            ("result", _result(effect)),
            ("error", one_line(effect.error) if effect.error is not None else ""),
            (
                "resolved",
                f"{said.outcome} by {safe(said.by or '-')}: {one_line(said.evidence)}" if said else "",
            ),
        ]
    )
    if effect.state == "AMBIGUOUS":
        say(
            "",
            "whether it happened is not known. Ask the remote side about its key, then:",
            f"  interlock effect resolve {quote(effect.action_id)} committed|not_committed --evidence '…'",
        )


def _result(effect: Effect) -> str:
    if effect.stored_result is not None:
        return f"{effect.stored_result.size} bytes, {effect.stored_result.digest}"
    return one_line(effect.result) if effect.state == "COMMITTED" else ""


def _state(effect: Effect) -> Cell:
    return Cell(effect.state, _STYLES.get(effect.state, ""))
