"""Every way in which a call can fail, each with its own exception type.

`outcome_of` is the only map from a problem (its `code`, else its status) to a type. Each outcome carries the
`Problem` and says the next step; `for_agent()` says it in words for a language model.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from interlock.rooms.policy import refusals as policy
from interlock.sdk.next_steps import in_python
from interlock.wire.jobs import Decision
from interlock.wire.problem import NextStep, Problem

if TYPE_CHECKING:
    from interlock.sdk.flow import Response


T = TypeVar("T")


def read_problem(response: Response) -> Problem:
    """The problem in an answer that is not a success; an answer that is no problem document becomes one."""
    document = _object_in(response.body)
    if document is None or not isinstance(document.get("code"), str):
        return _foreign(response)
    return Problem(
        status=response.status,
        code=str(document["code"]),
        title=_as(str, document.get("title")) or "",
        detail=_as(str, document.get("detail")) or "",
        next=_next_step(document.get("next")),
        retryable=_as(bool, document.get("retryable")),
        retry_after_seconds=_retry_after_seconds(response, document.get("retry_after_ms")),
        fields=document,
    )


def no_answer(reason: str) -> Problem:
    """Nothing came back."""
    return Problem(status=0, code="no_answer", title="No answer", detail=f"no answer: {reason}")


def no_store(code: str, detail: str) -> Problem:
    """Nowhere to send it: there is no embedded store."""
    return Problem(status=0, code=code, title="No store", detail=detail, retryable=False)


def circuit_open(held_seconds: float) -> Problem:
    """Not sent at all."""
    detail = f"not sent: the service has been failing; the next probe goes out in {held_seconds:.1f} s"
    return Problem(
        status=0, code="circuit_open", title="Not sent", detail=detail, retry_after_seconds=held_seconds
    )


def _foreign(response: Response) -> Problem:
    """An answer from something in between (a proxy, another server): the status is all that is known."""
    return Problem(
        status=response.status,
        code="unexpected_answer",
        title="Not an answer of Interlock",
        detail=f"HTTP {response.status} without a problem document; check that the URL points at Interlock "
        "and what stands between",
        retry_after_seconds=_retry_after_seconds(response, None),
    )


def _next_step(value: object) -> NextStep | None:
    try:
        return msgspec.convert(value, NextStep)
    except msgspec.ValidationError:
        return None


def _object_in(body: bytes) -> dict[str, object] | None:
    try:
        return msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _as(kind: type[T], value: object) -> T | None:
    return value if isinstance(value, kind) else None


def _retry_after_seconds(response: Response, milliseconds: object) -> float | None:
    """How long the answer asks to wait; `retry_after_ms` first, as the header is rounded up from it."""
    if isinstance(milliseconds, int | float) and milliseconds >= 0:
        return milliseconds / 1000
    header = response.headers.get("retry-after", "").strip()
    if header.isascii() and header.isdigit():
        return float(header)
    return _seconds_between(response.headers.get("date"), header) if header else None


def _seconds_between(sent: str | None, until: str) -> float | None:
    """A `Retry-After` date, measured from the answer's own `Date`: the local clock may be wrong."""
    from email.utils import parsedate_to_datetime  # only proxies answer with dates

    try:
        wait = parsedate_to_datetime(until) - parsedate_to_datetime(sent or "")
    except (ValueError, TypeError):
        return None
    return max(0.0, wait.total_seconds())


_decoders: dict[object, msgspec.json.Decoder[Any]] = {}
_learning = threading.Lock()


def decoder_of(kind: type[T]) -> msgspec.json.Decoder[T]:
    """What reads a type."""
    found = _decoders.get(kind)
    if found is None:
        with _learning:
            found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def converted(value: object, kind: type[T]) -> T:
    """A document as a type, for answers that are read once in a while: one thread at a time converts."""
    with _learning:
        return msgspec.convert(value, kind)


AGENT_TEXT_MAX = 1000


class InterlockError(Exception):
    """The root: anything the SDK raises for an answer, or for the lack of one.

    Its text is `sentence` and then, where there is one, the `next` step as a call.
    """

    advice = "Do not repeat the call unchanged; report this to the person you work for."

    def __init__(self, problem: Problem, message: str | None = None) -> None:
        self.problem = problem
        self.sentence = message or self._detail() or problem.title or problem.code
        self.next = None if message else problem.next
        super().__init__(in_python(self.sentence, self.next))

    def __reduce__(self) -> tuple[Any, ...]:
        """It crosses processes whole, past the constructor, which takes other arguments than are kept."""
        return Exception.__new__, (type(self), *self.args), self.__dict__

    def _detail(self) -> str:
        return self.problem.detail

    @property
    def code(self) -> str:
        """The machine-readable word of the contract, such as `policy_denied`."""
        return self.problem.code

    @property
    def is_foreign(self) -> bool:
        """Whether something in between answered, whose answer says nothing about what was asked."""
        return self.problem.code == "unexpected_answer"

    @property
    def job_id(self) -> str | None:
        """The job this is about, where there is one."""
        return self.problem.text("job_id")

    def for_agent(self) -> str:
        """A few plain sentences for an agent: what happened, and what it should do now."""
        return f"{_sentence(_in_short(self.sentence))} {self.advice}"


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault of a request: where (a JSON pointer; in a policy also a line and a column) and why."""

    path: str = ""
    reason: str = ""
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        """In words, with the name that the sender knows the place by."""
        place = self.path.removeprefix("path/").removeprefix("query/").removeprefix("body/").strip("/")
        return f"{place}{' ' if self.reason.startswith(('is ', 'must ')) else ': '}{self.reason}"


class InvalidRequest(InterlockError):
    """The request itself is wrong: malformed, too large, or not what the operation takes."""

    advice = "Correct the arguments before calling again."

    def _detail(self) -> str:
        is_one_place = len(self.errors) == 1 and self.errors[0].path and self.errors[0].line is None
        return str(self.errors[0]) if is_one_place else super()._detail()

    @property
    def errors(self) -> tuple[Fault, ...]:
        """Path and reason of each fault, as far as the service listed them."""
        try:
            return converted(self.problem.fields.get("errors", ()), tuple[Fault, ...])
        except msgspec.ValidationError:
            return ()


class Unauthenticated(InterlockError):
    """The key is missing, unknown or revoked."""

    advice = "The credentials need a person's attention; do not try again."


class Forbidden(InterlockError):
    """The caller is known and may not do this (role, group, own request, people only)."""

    advice = "You are not allowed to do this; do not try again or look for another way."


class NotFound(InterlockError):
    """No such thing for this caller."""

    advice = "Check the id; do not guess another."


class Denied(InterlockError):
    """Policy says no, or cannot be asked about this request. `rule` names the rule; the job is kept as `DENIED`."""

    advice = "Do not try again or look for another way to do it; tell the person you work for."

    @property
    def rule(self) -> str | None:
        """The id of the rule that decided."""
        return self.problem.text("rule")

    @property
    def expression(self) -> str | None:
        """The rule's expression, if it could not be answered about this request."""
        return self.problem.text("expression")

    @property
    def field(self) -> str | None:
        """What the expression could not read, if that is known."""
        return self.problem.text("field")


class Rejected(InterlockError):
    """A person said no, and why: `reason`, `reviewer`."""

    advice = "Take the reason into account; ask again only if what you propose has changed."

    @property
    def reason(self) -> str:
        """What the reviewer wrote."""
        return self.problem.text("reason") or "no reason given"

    @property
    def reviewer(self) -> str | None:
        """Who rejected it."""
        return self.problem.text("reviewer")

    def for_agent(self) -> str:
        """The reviewer's words, and that they are final for this request."""
        return f'A reviewer rejected this action: "{_in_short(self.reason)}". It was not done. {self.advice}'


class Expired(InterlockError):
    """Nobody decided in time."""

    advice = "Nothing was done. Ask again only if it is still wanted."


class StillPending(InterlockError):
    """Not decided yet, or not finished; the job goes on without the caller."""

    advice = "Nothing was done yet. Go on with other work and check again later; do not submit it twice."

    def __init__(self, job_id: str, *, state: str, resume: str) -> None:
        self.state = state
        super().__init__(
            Problem(
                status=202,
                code="still_pending",
                title="Still pending",
                detail=f"job {job_id} is still {state}; {resume}",
                fields={"job_id": job_id, "state": state},
            )
        )


class Conflict(InterlockError):
    """The state does not allow it: another caller decided, changed or used it first."""

    advice = "The situation has changed; look at the current state before doing anything else."

    @property
    def state(self) -> str | None:
        """The state that stood in the way."""
        return self.problem.text("state")


class Busy(InterlockError):
    """Another caller holds it, and the time to wait for it is over."""

    advice = "Nothing was done. It is in use right now; try again later."

    @property
    def holder(self) -> Mapping[str, object]:
        """Who holds it, as far as the service said."""
        return self.problem.nested("holder")


class Full(InterlockError):
    """The quota was evaluated and is used up."""

    advice = "Nothing was done. A limit is reached; slow down and try again later."


class Unavailable(InterlockError):
    """The service could not be reached or could not evaluate; nothing was decided."""

    advice = "Nothing was done. The approval service is out of reach; try again later."

    @property
    def retry_after_seconds(self) -> float | None:
        """When it makes sense to ask again: the service's own estimate, or the next probe's time."""
        return self.problem.retry_after_seconds


class NoStore(InterlockError):
    """The embedded store is not there, or what is there is not one of Interlock's. Nothing was made or changed.

    `code` is `no_store` or `not_a_store`.
    """

    advice = "There is no approval service here; a person has to set one up. Do not go on without it."


class Ambiguous(InterlockError):
    """It may have happened and may not have. `key`, passed to the same call again, settles it."""

    advice = "It may already have been done. Do not repeat it; a person has to look first."

    def __init__(self, problem: Problem, message: str | None = None, *, key: str | None = None) -> None:
        super().__init__(problem, message)
        self.key = key


class AlreadyDone(InterlockError):
    """The call was made before and finished, but what it returned could not be kept, so it cannot be returned again.

    `result_text` is the beginning of its text; None if it was never recorded or does not fit the return annotation.
    """

    advice = "It is done. Do not repeat it; go on as if it had succeeded."

    def __init__(self, job_id: str, topic: str, result_text: str | None) -> None:
        self.result_text = result_text
        why = (
            "nobody recorded what it returned, or it does not fit the return annotation"
            if result_text is None
            else "what it returned could not be kept as JSON; result_text has the beginning of it in words"
        )
        detail = f"this call of {topic} finished before (job {job_id}) and is not run again: {why}"
        super().__init__(
            Problem(
                status=409,
                code="already_done",
                title="Already done",
                detail=detail,
                fields={"job_id": job_id},
            )
        )


class UnexpectedAnswer(InterlockError):
    """The answer was a fault of the service, or did not come from Interlock at all."""


BY_CODE: dict[str, type[InterlockError]] = {
    "policy_denied": Denied,
    "not_claimed": Denied,
    "rejected": Rejected,
    "approval_expired": Expired,
    "lock_busy": Busy,
    "effect_in_progress": Busy,
    "in_grace": Busy,
    "effect_ambiguous": Ambiguous,
    "outcome_unknown": Ambiguous,
    "idempotency_key_reused": Conflict,
    "action_id_reused": Conflict,
}
BY_STATUS: dict[int, type[InterlockError]] = {
    0: Unavailable,
    400: InvalidRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    413: InvalidRequest,
    415: InvalidRequest,
    422: InvalidRequest,
    423: Busy,
    429: Full,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def outcome_of(problem: Problem) -> InterlockError:
    """The typed outcome of a problem."""
    kind = BY_CODE.get(problem.code) or BY_STATUS.get(problem.status)
    if kind is None:
        kind = InvalidRequest if 400 <= problem.status < 500 else UnexpectedAnswer
    return kind(problem)


def _in_short(text: str) -> str:
    """One line of bounded length, whatever was written."""
    line = " ".join(text.split())
    return line if len(line) <= AGENT_TEXT_MAX else line[: AGENT_TEXT_MAX - 1] + "…"


def _sentence(text: str) -> str:
    """`text` ending as a sentence does."""
    return text if text.endswith((".", "!", "?")) else text + "."


def because(decision: Decision | None) -> str:
    """Which rule it was, and why; or that none matched."""
    return policy.because(decision.rule, decision.reason) if decision else policy.because(None, None)


def kept_text(value: object, characters_max: int, spell: Callable[[object], str] = str) -> str:
    """What `spell` makes of a value, cut short. Whatever cannot be stored or sent is replaced, never refused.

    What an error says may hold anything, such as bytes of a file name; how a call ended must be told all the same.
    """
    try:
        text = spell(value)
    except Exception:  # noqa: BLE001 - it is the caller's code that spells, and it may be broken
        text = f"a {type(value).__name__} that cannot be spelled"
    return text[:characters_max].encode(errors="replace").decode().replace("\0", "?")


_FRAMES_MAX = 6
_MESSAGE_CHARACTERS_MAX = 4000
_FRAME_CHARACTERS_MAX = 500


class Retryable(Exception):
    """It did not work this time; try again while attempts last. The message is kept with the job."""


class Final(Exception):
    """It will never work; make the job a dead letter. The message is kept with the job."""


class LeaseLost(Exception):
    """Another worker has the job by now: stop, and change nothing more on its behalf."""


def described(error: BaseException) -> dict[str, Any]:
    """An error as it is kept with the job.

    What a handler says by `Retryable` or `Final` is kept word for word. Of an unexpected error only its type
    and where it happened are: its message may hold a password or a customer's data.
    """
    if isinstance(error, Retryable | Final):
        return {"type": type(error).__name__, "message": kept_text(error, _MESSAGE_CHARACTERS_MAX)}
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES_MAX:]
    named = (f"{PurePath(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in frames)
    where = [kept_text(name, _FRAME_CHARACTERS_MAX) for name in named]
    return {"type": type(error).__name__, "message": "unexpected error in the handler", "where": where}
