"""Makes a client from a command's options, and an exit code from an error."""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from collections.abc import Callable, Generator, Mapping, Sequence
from math import ceil
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from interlock.cli.exits import Exit, Failed, exit_of
from interlock.cli.options import LIMIT_DEFAULT, Untold, given, login_of, makes_store, wants_json
from interlock.cli.output import say, say_json, warn, without_password
from interlock.sdk.outcomes import (
    Ambiguous,
    Denied,
    InterlockError,
    InvalidRequest,
    Unauthenticated,
    Unavailable,
    converted,
)
from interlock.wire.fields import Page
from interlock.wire.problem import Wording

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.sdk.retry import Retry, RetryPolicy
    from interlock.service.settings import BadSetting
    from interlock.wire.problem import NextStep

T = TypeVar("T")

PAGE_MAX = 200
_SEARCHED_MAX = 10_000
_ATTEMPTS_MAX = 1_000_000
_REST_SECONDS_MAX = 2.0


@contextlib.contextmanager
def connected(args: Namespace) -> Generator[Interlock]:
    """A client for what `--url`, `--store`, `--api-key` and the environment say."""
    with translated(args), _client(args) as client, _showing_migrations(args):
        yield client


def _showing_migrations(args: Namespace) -> contextlib.AbstractContextManager[None]:
    """Show progress if the store that is opened in this process has to be updated first."""
    if _url(args):
        return contextlib.nullcontext()
    from interlock.cli.progress import showing_migrations

    return showing_migrations(args)


@contextlib.contextmanager
def translated(args: Namespace) -> Generator[None]:
    """Turn what a call can end in, other than well, into how the command ends."""
    try:
        yield
    except InterlockError as outcome:
        raise _failed(outcome, args) from outcome
    except (Failed, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        failed = explained(error)
        if failed is None:
            raise
        raise failed from error


def listing(
    client: Interlock, *segments: str, limit: int, cursor: str | None, query: Mapping[str, str | None]
) -> Page[Any]:
    """Up to `limit` items of a list, over as many pages as that takes, as the service spells them."""
    items: list[Any] = []
    while True:
        size = min(PAGE_MAX, limit - len(items))
        answer = client.call("GET", *segments, query={**query, "limit": size, "cursor": cursor})
        page = typed(answer, Page[Any])
        items += page.items
        cursor = page.next_cursor
        if cursor is None or len(items) >= limit:
            return Page(items=tuple(items), next_cursor=cursor)


def typed(value: object, kind: type[T]) -> T:
    """The service's answer as one of the SDK's types."""
    try:
        return converted(value, kind)
    except msgspec.ValidationError as error:
        advice = "are the server and this program of versions that know each other?"
        raise Failed(f"the answer could not be read: {error}; {advice}", name="unexpected_answer") from None


def answer(args: Namespace, found: T, tell: Callable[[T], object]) -> int:
    """Print what a call returned: as JSON for a program, as `tell` words it for a person."""
    if wants_json(args):
        say_json(found)
    else:
        tell(found)
    return Exit.DONE


def answer_call(
    args: Namespace,
    method: Literal["GET", "POST", "PUT", "DELETE"],
    *segments: str,
    kind: type[T],
    tell: Callable[[T], object],
    body: Any = None,
) -> int:
    """Make one call, and print its answer. `--json` prints every field, also those that this version does not know."""
    with connected(args) as client:
        found = client.call(method, *segments, body=body)
    return answer(args, found, lambda found: tell(typed(found, kind)))


def answer_list(
    args: Namespace,
    *segments: str,
    kind: type[T],
    tell: Callable[[Sequence[T]], object],
    command: str,
    nothing: str,
    query: Mapping[str, str | None] | None = None,
    options: Mapping[str, str | None] | None = None,
) -> int:
    """Read a list and print it as `answer_page` does. `options` are the filters of `query` as `command` takes them."""
    query = query or {}
    with connected(args) as client:
        page = listing(client, *segments, limit=args.limit, cursor=args.cursor, query=query)
    following = more(page, command, args, query if options is None else options)
    return answer_page(args, page, kind=kind, tell=tell, nothing=nothing, following=following)


def answer_one(
    args: Namespace,
    *segments: str,
    kind: type[T],
    is_it: Callable[[T], bool],
    tell: Callable[[T], object],
    name: str,
) -> int:
    """Print one item of a list, for what the service lists and does not show alone."""
    with connected(args) as client:
        page = listing(client, *segments, limit=_SEARCHED_MAX, cursor=None, query={})
    for item in page.items:
        if is_it(typed(item, kind)):
            return answer(args, item, lambda item: tell(typed(item, kind)))
    raise Failed(f"there is no {name} here; `interlock {segments[0]}` lists what there is", name="not_found")


def answer_page(
    args: Namespace,
    page: Page[Any],
    *,
    kind: type[T],
    tell: Callable[[Sequence[T]], object],
    nothing: str,
    following: str = "",
) -> int:
    """Print a page as JSON or as a table with the command for the next one; `nothing` says that it is empty."""
    if wants_json(args):
        say_json(page)
    elif page.items:
        tell([typed(item, kind) for item in page.items])
        say(*filter(None, [following]))
    else:
        say(nothing)
    return Exit.DONE


def more(
    page: Page[Any], command: str, args: Namespace, query: Mapping[str, str | None] | None = None
) -> str:
    """The line under a listing that goes on, with the same filters, as many and from the same place; or nothing.

    It contains neither the key nor a password, so it may be copied into a message.
    """
    if not page.next_cursor:
        return ""
    limit = str(args.limit) if args.limit != LIMIT_DEFAULT else None
    named = () if login_of(args) else ("url", "store")
    places = {name: without_password(given(args, name) or "") for name in named}
    options = {**(query or {}), "limit": limit, **places, "cursor": page.next_cursor}
    words = [f"--{name} {quote(value)}" for name, value in options.items() if value]
    return " ".join(("there are more:", command, *words))


def _client(args: Namespace) -> Interlock:
    from interlock.sdk.client import Interlock

    url, store = given(args, "url"), given(args, "store")
    if url and store:
        raise Failed("pass --url (a server) or --store (this process), not both", Exit.USAGE)
    try:
        client = Interlock(
            url,
            given(args, "api_key"),
            store=store,
            retry=_patience(args.patience),
            on_retry=None if wants_json(args) else _tell_retry,
            make_store=makes_store(args),
            on_wait=warn,
        )
    except InvalidRequest as refused:
        advice = "; an admin makes one with `interlock key create`" if "key" in str(refused) else ""
        raise Failed(f"{refused}{advice}", Exit.USAGE, name=refused.code) from refused
    client.session.via = "cli"
    return client


def _patience(patience_seconds: int) -> RetryPolicy:
    """How long to try. A full quota or a held resource is waited for only if the caller passed `--patience`.

    With `--patience` only time ends the retries: no retry budget and no circuit breaker does.
    """
    from interlock.sdk.retry import (
        BUSY,
        FULL,
        NO_RETRIES,
        UNAVAILABLE,
        BreakerSettings,
        BudgetSettings,
        RetryPolicy,
    )

    if not patience_seconds:
        return NO_RETRIES
    if isinstance(patience_seconds, Untold):
        return RetryPolicy(deadline_seconds=patience_seconds, busy=NO_RETRIES.busy, full=NO_RETRIES.full)
    busy, full, unavailable = (
        msgspec.structs.replace(
            each, attempts_max=_ATTEMPTS_MAX, cap_seconds=_REST_SECONDS_MAX, deadline_share=1.0
        )
        for each in (BUSY, FULL, UNAVAILABLE)
    )
    return RetryPolicy(
        deadline_seconds=patience_seconds,
        busy=busy,
        full=full,
        unavailable=unavailable,
        budget=BudgetSettings(allowance=_ATTEMPTS_MAX),
        breaker=BreakerSettings(failures_max=_ATTEMPTS_MAX),
    )


def _tell_retry(retry: Retry) -> None:
    """Say once why a call takes a while; how it ended in the end is told by the command."""
    if retry.attempt == 1:
        warn(f"{retry.problem.detail or retry.problem.code}; trying again")


def _failed(outcome: InterlockError, args: Namespace) -> Failed:
    wait, may_repeat = outcome.problem.retry_after_seconds, outcome.problem.retryable
    problem = {
        **({} if wait is None else {"retry_after_ms": ceil(wait * 1000)}),
        **({"retryable": False} if may_repeat is None and isinstance(outcome, Ambiguous) else {}),
        **outcome.problem.fields,
        "status": outcome.problem.status,
        "code": outcome.code,
        "detail": outcome.sentence,
        "title": outcome.problem.title,
    }
    return Failed(_paragraph(outcome, args), exit_of(outcome), problem=problem)


def _paragraph(outcome: InterlockError, args: Namespace) -> str:
    text = in_shell(outcome.sentence, outcome.next)
    if isinstance(outcome, Unauthenticated):
        has_key = given(args, "api_key") or os.environ.get("INTERLOCK_KEY")
        wrong = outcome.sentence.partition(";")[0] if has_key else "no key was sent"
        way = (
            "log in with a valid one: `interlock login`" if login_of(args) else "pass one with INTERLOCK_KEY"
        )
        return f"{wrong}; {way}; an admin makes it with `interlock key create`"
    if isinstance(outcome, Denied) and outcome.job_id:
        return f"{text}. The request is kept as {outcome.job_id}"
    if isinstance(outcome, Unavailable) and outcome.problem.status == 0 and _url(args):
        check = "Check --url or INTERLOCK_URL"
        if login_of(args):
            check = "You are logged in there; `interlock logout` forgets it"
        return f"{text}. Is `interlock serve` running at {_url(args)}? {check}"
    if isinstance(outcome, Ambiguous) and outcome.key:
        return _doubtful(outcome, outcome.key, args)
    if outcome.code == "idempotency_key_reused" and hasattr(args, "intent"):
        return "this --key was used for a different request; give a new request a --key of its own"
    if isinstance(outcome, InvalidRequest):
        return "\n  ".join([text, *map(str, outcome.errors)]) if len(outcome.errors) > 1 else text
    return text


def _doubtful(outcome: Ambiguous, key: str, args: Namespace) -> str:
    """How to find out whether it was done: by the same command, if it takes a name for what is wanted."""
    said = in_shell(outcome.sentence, outcome.next)
    tells = f"the same command with --key {quote(key)} tells, and cannot do it twice"
    return f"it may have been done: {said}; {tells if hasattr(args, 'intent') else 'look before you run it again'}"


def _url(args: Namespace) -> str | None:
    """The server that was asked, if one was."""
    return given(args, "url") or (None if given(args, "store") else os.environ.get("INTERLOCK_URL"))


def explained(error: Exception) -> Failed | None:
    """How a command ends that met this error; None for an unexpected one."""

    from interlock.kernel.refusal import Fault, LockBusy, Refusal
    from interlock.kernel.storage import LockTimeout, NotAStore, SchemaTooNew, StoreDown, StoreMissing
    from interlock.service.settings import BadSetting

    match error:
        case BadSetting():
            return bad_setting(error)
        case SchemaTooNew():
            return Failed(str(error), name="schema_too_new")
        case StoreMissing():
            return Failed(str(error), name="no_store")
        case NotAStore():
            return Failed(str(error), name="not_a_store")
        case StoreDown():
            return _as_problem(error, str(error), Exit.UNAVAILABLE, "store_unavailable")
        case LockBusy() | LockTimeout():
            return _as_problem(error, str(error), Exit.BUSY, "lock_busy")
        case Refusal() | Fault():
            code = Exit.ERROR if isinstance(error, Refusal) else Exit.UNAVAILABLE
            return _as_problem(error, error.detail, code, "internal_error")
        case ValueError() if "store URL" in str(error) or "driver is not installed" in str(error):
            return Failed(str(error), Exit.USAGE, name="bad_store_url")
        case OSError():
            detail = f"the store could not be opened: {error}"
            return _as_problem(error, detail, Exit.UNAVAILABLE, "store_unavailable")
        case _:
            return None


def bad_setting(error: BadSetting) -> Failed:
    """How a command ends that was given a setting that cannot be used."""
    wrong = str(error)
    see = "See" if wrong.endswith("?") else "see"
    return Failed(
        f"{wrong}{' ' if see == 'See' else '; '}{see} `interlock serve --help`",
        Exit.USAGE,
        name="bad_setting",
    )


def _as_problem(error: Exception, detail: str, code: Exit, otherwise: str) -> Failed:
    """The same problem that a server would answer with; what none knows is the one called `otherwise`."""
    from interlock.api.problem import problem
    from interlock.api.problems import translator
    from interlock.wire.codes import CODES

    known = translator(CODES["lock_busy"].status)(error) or problem(otherwise, detail)
    return Failed(in_shell(detail, known.next), code, problem={**known.document(), "detail": detail})


COMMANDS: Mapping[str, str] = {
    "acquire_lease": "lease acquire {resource} --wait {wait_seconds}s",
    "add_signer": "signer add {public_key}",
    "cancel_job": "cancel {job_id}",
    "cancel_run": "run cancel {run_id}",
    "evaluate_policy": "policy evaluate {topic}",
    "get_approval": "approval {job_id}",
    "get_conflict": "conflict {conflict_id}",
    "get_effect": "effect show {action_id}",
    "get_grant": "grant show {grant_id}",
    "get_job": "job {job_id}",
    "get_lease": "lease {lease_id}",
    "get_policy": "policy show",
    "get_run": "run {run_id}",
    "issue_grant": "grant {task}",
    "job_history": "job {job_id} --history",
    "put_policy": "policy apply FILE",
    "refresh_approval": "refresh {job_id}",
    "reject_job": "reject {job_id} --reason TEXT",
    "resolve_effect": "effect resolve {action_id} committed|not_committed --evidence TEXT",
    "revoke_api_key": "key revoke {key_id}",
    "start_run": "run start {workflow} --wait {wait_seconds}s",
    "submit_job": "submit {topic} --payload {payload}",
}
# Where the same operation is asked for differently: what else it needs decides.
NEEDING: Mapping[tuple[str, tuple[str, ...]], str] = {
    ("issue_grant", ("signature",)): "grant {task} --sign-with KEYFILE",
}

_WORDING = Wording(
    templates=COMMANDS,
    needing=NEEDING,
    frame="`interlock {}`",
    known=lambda value: quote(str(value)),
    unknown=str.upper,
)


def in_shell(sentence: str, step: NextStep | None) -> str:
    """The sentence with the next step as a command."""
    return _WORDING.add_to(sentence, step)
