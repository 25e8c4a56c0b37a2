"""Grants over HTTP: issue, list, revoke, claim; the keys that may sign them, and the tasks that need a signed one."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from interlock.api.calls import Asked, caller_of, decide
from interlock.api.jobs import READERS
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, id_cursor, moment_and_id, position
from interlock.api.problem import invalid
from interlock.kernel.codec.canonical import canonical
from interlock.kernel.codec.durations import duration_seconds
from interlock.kernel.codec.strict import JsonFault
from interlock.kernel.ids import new_id
from interlock.rooms.grants import queries
from interlock.rooms.grants.claims import ClaimGrant, LookFurther, NotClaimed
from interlock.rooms.grants.model import (
    NOT_A_PATH,
    BadPin,
    Grant,
    GrantState,
    GrantTerms,
    GrantUse,
    Signature,
    Signer,
    SpendLimit,
    is_path,
    pins_of,
    written_pins,
)
from interlock.rooms.grants.queries import Ledger
from interlock.rooms.grants.rules import IssueGrant, RevokeGrant
from interlock.rooms.grants.signatures import AddSigner, RevokeSigner, SetGrantTerms, read_public_key
from interlock.rooms.identity.refusals import NotFound
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import grants as wire
from interlock.wire.fields import OMITTED, Page, Text

CLAIMS_SHOWN_MAX = 50


class GrantsQuery(PageQuery, frozen=True, kw_only=True):
    task: Text | None = None
    state: GrantState | None = None


async def issue(call: Asked[None, wire.IssueGrantBody]) -> Answer:
    body = call.body
    _check_times(body)
    signature = body.signature
    command = IssueGrant(
        caller=caller_of(call),
        grant_id=body.nonce if signature else None,
        task=body.task,
        pins=_pins(body),
        limits=_limits(body),
        uses=body.uses,
        expires_at=_moment(body),
        expires_seconds=duration_seconds(body.expires_in) if body.expires_in is not None else 3600,
        standing=body.standing,
        reason=body.reason,
        signature=Signature(signer=signature.signer, value=signature.value) if signature else None,
    )
    return await decide(call, command, lambda grant: Reply(201, grant_view(grant, grant.issued_at)))


async def revoke(call: Asked[None, wire.RevokeGrantBody]) -> Answer:
    command = RevokeGrant(caller=caller_of(call), grant_id=call.path["grant_id"], reason=call.body.reason)
    return await decide(call, command, lambda grant: Reply(200, grant_view(grant, call.services.now())))


async def claim(call: Asked[None, wire.ClaimGrantBody]) -> Answer:
    body = call.body
    command = ClaimGrant(
        caller=caller_of(call),
        task=body.task,
        args=msgspec.Raw(canonical(body.args)),
        execution_id=body.execution_id,
        grant_id=body.grant_id,
        signed_only=body.signed,
        groups=tuple(body.groups),
    )
    while True:
        try:
            return await decide(call, command, _claimed)
        except LookFurther as further:
            command = further.claim


async def listed(call: Asked[GrantsQuery, None]) -> Reply:
    query, now = call.query, call.services.now()
    found = await queries.list_grants(
        call.services.store,
        call.caller.tenant,
        task=query.task,
        state=query.state,
        now=now,
        before=id_cursor(query.cursor, "gnt"),
        limit=query.limit,
    )
    items = [grant_view(grant, now) for grant in found.items]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def read(call: Asked[None, None]) -> Reply:
    grant = await queries.read_grant(call.services.store, call.caller.tenant, call.path["grant_id"])
    if grant is None:
        raise NotFound("grant", call.path["grant_id"])
    claims = await queries.list_uses(
        call.services.store, call.caller.tenant, grant.id, before=None, limit=CLAIMS_SHOWN_MAX
    )
    return Reply(200, grant_view(grant, call.services.now(), claims.items, seen_by=call.caller.principal))


async def uses(call: Asked[PageQuery, None]) -> Reply:
    store, tenant, query = call.services.store, call.caller.tenant, call.query
    grant = await queries.read_grant(store, tenant, call.path["grant_id"])
    if grant is None:
        raise NotFound("grant", call.path["grant_id"])
    found = await queries.list_uses(store, tenant, grant.id, before=position(query.cursor), limit=query.limit)
    items = tuple(use_view(use, call.caller.principal) for use in found.items)
    return Reply(200, Page(items=items, next_cursor=found.next_cursor))


async def ledger(call: Asked[PageQuery, None]) -> Reply:
    query, service = call.query, call.services
    found = await queries.read_ledger(
        service.store,
        call.caller.tenant,
        now=service.now(),
        before=id_cursor(query.cursor, "gnt"),
        limit=query.limit,
    )
    return Reply(200, ledger_view(found))


def _claimed(result: GrantUse | NotClaimed) -> Reply:
    if isinstance(result, NotClaimed):
        shown = wire.GrantClaim(
            claimed=False, grant_id=OMITTED, use=OMITTED, fence=OMITTED, reason=result.reason
        )
    else:
        shown = wire.GrantClaim(
            claimed=True, grant_id=result.grant_id, use=result.use, fence=result.fence, reason=OMITTED
        )
    return Reply(200, shown)


def _check_times(body: wire.IssueGrantBody) -> None:
    if body.expires_in is not None and body.expires_at:
        raise invalid(JsonFault("/expires_in", "give expires_in or expires_at, not both"))
    if body.expires_at and body.expires_at.tzinfo is None:
        raise invalid(JsonFault("/expires_at", "lacks a time zone; write it like 2030-01-01T12:00:00Z"))
    if body.signature and not (body.expires_at and body.nonce):
        raise invalid(JsonFault("/signature", "needs the expires_at and the nonce that were signed"))
    if body.nonce and not body.signature:
        raise invalid(JsonFault("/nonce", "is part of what is signed; give the signature too, or neither"))


def _moment(body: wire.IssueGrantBody) -> datetime | None:
    try:
        return None if body.expires_at is None else body.expires_at.astimezone(UTC)
    except OverflowError:
        raise invalid(JsonFault("/expires_at", "is before the year 1 or after 9999 in UTC")) from None


def _pins(body: wire.IssueGrantBody) -> Any:
    try:
        return pins_of(body.pins)
    except BadPin as error:
        raise invalid(JsonFault(f"/pins/{error.path}", str(error))) from None


def _limits(body: wire.IssueGrantBody) -> tuple[SpendLimit, ...]:
    given = [(f"/limits/{number}/path", limit) for number, limit in enumerate(body.limits)]
    if body.budget is not None:
        given.append(("/budget/path", body.budget))
    limited: set[str] = set()
    for place, limit in given:
        if not is_path(limit.path):
            raise invalid(JsonFault(place, f"{limit.path!r} {NOT_A_PATH}"))
        if limit.path in limited:
            raise invalid(JsonFault(place, f"{limit.path!r} is limited twice"))
        limited.add(limit.path)
    return tuple(SpendLimit(path=limit.path, total_max=limit.total_max) for _, limit in given)


def grant_view(
    grant: Grant, now: datetime, claims: Sequence[GrantUse] = (), *, seen_by: str = ""
) -> wire.Grant:
    return wire.Grant(
        id=grant.id,
        grant_id=grant.id,
        task=grant.task,
        state=grant.state_at(now).value,
        pins=written_pins(grant.pins),
        limits=tuple(wire.SpendLimit(path=limit.path, total_max=limit.total_max) for limit in grant.limits),
        spent=grant.spent,
        uses=grant.uses,
        used=grant.used,
        standing=grant.standing,
        approver=grant.approver,
        reason=grant.reason,
        issued_at=grant.issued_at,
        expires_at=grant.expires_at,
        signed_by=grant.signature.signer if grant.signature else None,
        revoked_at=grant.revoked_at,
        revoked_by=grant.revoked_by,
        tally=wire.GrantTally(**grant.tally(now)),
        claims=tuple(use_view(use, seen_by) for use in claims),
    )


def use_view(use: GrantUse, seen_by: str) -> wire.GrantUse:
    return wire.GrantUse(
        grant_id=use.grant_id,
        use=use.use,
        fence=use.fence if use.claimed_by == seen_by else OMITTED,
        execution_id=use.execution_id,
        claimed_by=use.claimed_by,
        claimed_at=use.claimed_at,
        args_digest=use.args_digest,
        action_id=use.action_id,
    )


def ledger_view(ledger: Ledger) -> wire.GrantLedger:
    return wire.GrantLedger(
        grants=ledger.grants,
        issued=ledger.issued,
        open=ledger.open,
        claimed=ledger.claimed,
        expired=ledger.expired,
        revoked=ledger.revoked,
        uneven=tuple(ledger.uneven),
        next_cursor=ledger.next_cursor,
    )


async def add_signer(call: Asked[None, wire.AddSignerBody]) -> Answer:
    command = AddSigner(
        caller=caller_of(call),
        public_key=read_public_key(call.body.public_key),
        person=call.body.person or call.caller.principal,
    )
    return await decide(call, command, lambda signer: Reply(201, _signer_view(signer)))


async def revoke_signer(call: Asked[None, None]) -> Answer:
    command = RevokeSigner(caller=caller_of(call), fingerprint=call.path["fingerprint"])
    return await decide(call, command, lambda signer: Reply(200, _signer_view(signer)))


async def list_signers(call: Asked[PageQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_signers(
        call.services.store, call.caller.tenant, before=moment_and_id(query.cursor), limit=query.limit
    )
    items = [_signer_view(signer) for signer in found.items]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def set_terms(call: Asked[None, wire.GrantTermsBody]) -> Answer:
    command = SetGrantTerms(caller=caller_of(call), signed_tasks=tuple(call.body.signed_tasks))
    return await decide(call, command, lambda terms: Reply(200, _terms_view(call, terms)))


async def read_terms(call: Asked[None, None]) -> Reply:
    kept = await queries.read_terms(call.services.store, call.caller.tenant)
    return Reply(200, _terms_view(call, kept))


def _terms_view(call: Asked[None, Any], kept: GrantTerms) -> wire.GrantTerms:
    # The service's clock and a fresh id: what a person signs must not depend on their own machine's clock.
    return wire.GrantTerms(
        signed_tasks=kept.signed_tasks,
        tenant=call.caller.tenant,
        approver=call.caller.principal,
        nonce=new_id("gnt"),
        now=call.services.now(),
    )


def _signer_view(signer: Signer) -> wire.Signer:
    return wire.Signer(
        fingerprint=signer.id,
        person=signer.person,
        public_key=signer.public_key,
        added_at=signer.added_at,
        added_by=signer.added_by,
        revoked_at=signer.revoked_at,
        revoked_by=signer.revoked_by,
    )


_TAG = "Grants"
_GRANT_ID = {"grant_id": "The id that issuing the grant returned."}
_CLAIMANTS = ("submit", "work", "operate", "admin")

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="issue_grant", method="POST", path="/api/v1/grants", tag=_TAG,
        summary="Allow a task a limited number of times, until a deadline", body=wire.IssueGrantBody,
        description="People only. Pins and limits only narrow. With a signature, the server checks it against "
        "the registered keys of the person who issues.",
        answers={201: wire.Grant}, answer=issue,
        problems=("people_only", "forbidden", "conflict", "bad_signature"),
        example={"task": "deploy", "pins": {"repo": "billing", "amount_cents": {"max": 500}}, "uses": 1},
    ),
    Operation(
        id="list_grants", method="GET", path="/api/v1/grants", tag=_TAG, roles=READERS, query=GrantsQuery,
        summary="List grants, newest first", answers={200: Page[wire.Grant]}, answer=listed,
    ),
    Operation(
        id="claim_grant", method="POST", path="/api/v1/grants/claim", tag=_TAG, roles=_CLAIMANTS,
        summary="Find a fitting grant and consume one use", body=wire.ClaimGrantBody,
        answers={200: wire.GrantClaim}, answer=claim,
        description="One decision: n claimants on k uses give exactly min(n, k) winners. A claim that does not "
        "fit consumes nothing, says which check failed, and is audited.",
        example={"task": "deploy", "args": {"repo": "billing"}, "execution_id": "run-7"},
    ),
    Operation(
        id="grants_ledger", method="GET", path="/api/v1/grants/ledger", tag=_TAG, query=PageQuery,
        roles=("audit", "operate", "admin"), summary="What became of all uses, a page of grants at a time",
        answers={200: wire.GrantLedger}, answer=ledger,
    ),
    Operation(
        id="get_grant", method="GET", path="/api/v1/grants/{grant_id}", tag=_TAG, roles=READERS,
        parameters=_GRANT_ID, summary="Read a grant, with its newest uses", answers={200: wire.Grant}, answer=read,
    ),
    Operation(
        id="grant_uses", method="GET", path="/api/v1/grants/{grant_id}/uses", tag=_TAG, roles=READERS,
        parameters=_GRANT_ID, summary="List the uses of a grant, newest first", query=PageQuery,
        answers={200: Page[wire.GrantUse]}, answer=uses,
    ),
    Operation(
        id="revoke_grant", method="POST", path="/api/v1/grants/{grant_id}/revoke", tag=_TAG,
        roles=("review", "operate", "admin"), parameters=_GRANT_ID, body=wire.RevokeGrantBody,
        summary="End what is left of a grant", answers={200: wire.Grant}, answer=revoke,
        problems=("not_actionable",),
    ),
    Operation(
        id="get_grant_terms", method="GET", path="/api/v1/grants/terms", tag=_TAG, roles=READERS,
        summary="Which tasks need a signed grant, and what to write into one",
        answers={200: wire.GrantTerms}, answer=read_terms,
    ),
    Operation(
        id="set_grant_terms", method="PUT", path="/api/v1/grants/terms", tag=_TAG, roles=("admin",),
        summary="Say which tasks need a signed grant", body=wire.GrantTermsBody, answers={200: wire.GrantTerms},
        answer=set_terms, example={"signed_tasks": ["deploy", "prod.*"]}, problems=("people_only",),
    ),
    Operation(
        id="list_signers", method="GET", path="/api/v1/signers", tag=_TAG, roles=READERS, query=PageQuery,
        summary="List the keys that grants may be signed with, newest first",
        answers={200: Page[wire.Signer]}, answer=list_signers,
    ),
    Operation(
        id="add_signer", method="POST", path="/api/v1/signers", tag=_TAG, roles=("admin",), body=wire.AddSignerBody,
        summary="Register a person's public key", answers={201: wire.Signer}, answer=add_signer,
        problems=("not_found", "conflict", "people_only"),
    ),
    Operation(
        id="revoke_signer", method="POST", path="/api/v1/signers/{fingerprint}/revoke", tag=_TAG, roles=("admin",),
        parameters={"fingerprint": "The key's fingerprint."},
        summary="Stop trusting a key", answers={200: wire.Signer}, answer=revoke_signer, problems=("people_only",),
    ),
)  # fmt: skip
