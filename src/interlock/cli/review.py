"""`interlock review`: decide one waiting request after another, on a terminal.

An answer is about exactly what is on the screen. Before it is sent the request is read again: one that changed is shown
again and the answer is dropped. The hash of what was shown goes with the answer, so that the service refuses what
changes in between.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import Parser, finished, wants_json
from interlock.cli.output import painted, say

if TYPE_CHECKING:
    from interlock.sdk.client import Interlock
    from interlock.wire.approvals import ApprovalRequest

_PROMPT = "approve? [y, n, e, s, q, ?] "
_HELP = (
    "  y  approve exactly what is shown; a reason may be given",
    "  n  reject it; asks for a reason, which the submitter sees",
    "  e  edit the payload in $EDITOR; asks for a reason, then shows it again",
    "  s  skip it; it goes on waiting",
    "  q  quit",
)
# The request is another than the one that was shown, and still waits.
_CHANGED = ("hash_mismatch", "job_changed", "snapshot_changed", "target_changed")


def declare_review() -> Parser:
    """The options of `interlock review`."""
    parser = Parser(
        "interlock review",
        description="Show one request that waits for you after another, and ask: y approves, n rejects, e edits,\n"
        "s skips, q quits. It needs a terminal.",
        examples=("interlock review",),
        more="\n".join(("answers:", *_HELP)) + "\n",
    )
    return finished(parser, run_review)


def run_review(args: Namespace) -> int:
    """Ask about each, until none is left or the reviewer leaves; then say what was done."""
    if wants_json(args) or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failed(
            "review asks at a terminal; elsewhere list what waits for you with `interlock approvals --mine`, "
            "and decide with `interlock approve` and `interlock reject`",
            Exit.USAGE,
            name="no_terminal",
        )
    from interlock.cli.connection import connected

    with connected(args) as client:
        sitting = _Sitting(client)
        try:
            sitting.go()
        except (EOFError, KeyboardInterrupt):
            say("")
        finally:
            sitting.say_done()
    return Exit.DONE


class _Left(Exception):
    """The reviewer is done with this request."""


class _Quit(EOFError):
    """The reviewer is done."""


class _Shown(NamedTuple):
    """What a decision depends on. Times and who else looks change all the while, and do not matter."""

    job_hash: str | None
    state: str
    round: int
    on_approve: str | None
    comments: int
    drift: object


class _Sitting:
    """One reviewer at one terminal, and what they have done so far."""

    def __init__(self, client: Interlock) -> None:
        self._client = client
        self._passed: set[str] = set()
        self._done: list[str] = []  # what was done to each request, in a word
        self._request: ApprovalRequest
        self._draft: str | None = None

    def go(self) -> None:
        """Show what is most urgent now, ask, and go on; each request once."""
        while (job_id := self._next()) is not None:
            self._passed.add(job_id)
            self._draft = None
            try:
                self._show(job_id)
                while True:
                    self._answer(_asked(_PROMPT).lower())
            except _Left:
                say("")
        say("nothing else waits for your decision" if self._passed else "nothing waits for your decision")
        if not self._passed:
            self._say_own()

    def _say_own(self) -> None:
        """A person who tries this alone is told why their own request is not theirs to decide, and who is needed."""
        waiting = self._client.get_inbox(mine=False, limit=1).items
        if waiting and waiting[0].why_not == "own_request":
            say(
                f"your own request {waiting[0].id} waits for another person. For a key of theirs: "
                "interlock key create NAME --kind person --roles review"
            )

    def say_done(self) -> None:
        """How many were approved, rejected and skipped."""
        words = ("approved", "rejected", "skipped", *(["edited"] if "edited" in self._done else []))
        say(", ".join(f"{self._done.count(word)} {word}" for word in words))

    def _next(self) -> str | None:
        from interlock.cli.watch import inbox_items

        # Looked up each time: what came meanwhile may be more urgent, and others decide, too.
        return next((item.id for item in inbox_items(self._client) if item.id not in self._passed), None)

    def _show(self, job_id: str) -> None:
        from interlock.cli.approvals import say_request

        self._request = self._client.get_approval(job_id)
        say(painted(job_id, "dim"))
        say_request(self._request)
        say("")
        self._leave_unless_open()

    def _leave_unless_open(self) -> None:
        request = self._request
        if request.state != "pending":
            say(f"it is {request.state}, and waits for nobody any more")
        elif not request.you.may_decide:
            say("another reviewer must decide it now")
        else:
            return
        raise _Left

    def _answer(self, word: str) -> None:
        match word:
            case "y" | "yes":
                self._approve()
            case "n" | "no":
                self._reject()
            case "e":
                self._edit()
            case "s":
                self._skip()
            case "q":
                raise _Quit
            case _:
                say(*_HELP)

    def _approve(self) -> None:
        reason = _asked("reason (may be empty): ")
        shown = self._request
        self._decide("approved", lambda: self._client.approve(shown, reason=reason or None))

    def _reject(self) -> None:
        if not (reason := _asked("reason (the submitter sees it): ")):
            say("a rejection needs a reason; nothing was sent")
            return
        shown = self._request
        self._decide("rejected", lambda: self._client.reject(shown, reason))

    def _skip(self) -> None:
        self._done.append("skipped")
        raise _Left

    def _edit(self) -> None:
        from interlock.cli.editing import Unedited, edited

        shown = self._request
        try:
            payload, self._draft = edited(shown.payload, self._draft)
        except Unedited as unedited:
            self._draft = unedited.draft
            say(str(unedited))
            return
        if not (reason := _asked("reason (kept with the old version): ")):
            say("an edit needs a reason; nothing was sent, and `e` goes on with your text")
            return
        seen = shown.job_hash
        if self._sent(
            "editing", lambda: self._client.edit(shown.job_id, payload, reason=reason, job_hash=seen)
        ):
            self._done.append("edited")
            self._draft = None
            self._show(shown.job_id)

    def _decide(self, wanted: str, send: Callable[[], Any]) -> None:
        from interlock.cli.decisions import review_text

        review = self._sent(f"this is being {wanted}", send)
        if review is None:
            return
        say(review_text(self._request.job_id, review))
        if not review.outcome.startswith("already_"):
            self._done.append(wanted)
        raise _Left

    def _sent(self, doing: str, send: Callable[[], Any]) -> Any:
        """What the service answered. None if nothing was done: the request changed and is shown again, or to try again
        may help. What is refused for good is left."""
        from interlock.cli.connection import in_shell
        from interlock.sdk.outcomes import (
            Ambiguous,
            Busy,
            Full,
            InterlockError,
            InvalidRequest,
            Unauthenticated,
            Unavailable,
        )

        job_id = self._request.job_id
        try:
            if _shown(self._client.get_approval(job_id)) == _shown(self._request):
                return send()
        except (Unavailable, Unauthenticated, Ambiguous):
            raise
        except (InvalidRequest, Busy, Full) as refused:
            say(f"{in_shell(refused.sentence, refused.next)}; nothing changed")
            return None
        except InterlockError as refused:
            if refused.code not in _CHANGED:
                say(in_shell(refused.sentence, refused.next))
                raise _Left from refused
        except KeyboardInterrupt:
            say("", f"interrupted; see whether it was done with: interlock approval {job_id}")
            raise
        say("", painted("! it changed meanwhile, so nothing was sent; here it is again", "yellow"), "")
        self._show(job_id)
        return None


def _shown(request: ApprovalRequest) -> _Shown:
    return _Shown(
        job_hash=request.job_hash,
        state=request.state,
        round=request.approval.round,
        on_approve=request.on_approve,
        comments=request.comments_total,
        drift=request.drift,
    )


def _asked(prompt: str) -> str:
    return input(prompt).strip()
