"""Signers over HTTP: whose keys may sign grants, and which tasks need a signed grant."""

from __future__ import annotations

from typing import Any

from interlock.api.calls import Asked, caller_of, decide
from interlock.api.jobs import READERS
from interlock.api.operations import Answer, Operation, Reply
from interlock.api.pages import PageQuery, moment_and_id
from interlock.kernel.ids import new_id
from interlock.rooms.grants import queries
from interlock.rooms.grants.model import GrantTerms, Signer
from interlock.rooms.grants.signatures import AddSigner, RevokeSigner, SetGrantTerms, read_public_key
from interlock.service.keyring import Known
from interlock.service.service import Service
from interlock.wire import grants as wire
from interlock.wire.fields import Page


async def add(call: Asked[None, wire.AddSignerBody]) -> Answer:
    command = AddSigner(
        caller=caller_of(call),
        public_key=read_public_key(call.body.public_key),
        person=call.body.person or call.caller.principal,
    )
    return await decide(call, command, lambda signer: Reply(201, _signer_view(signer)))


async def revoke(call: Asked[None, None]) -> Answer:
    command = RevokeSigner(caller=caller_of(call), fingerprint=call.path["fingerprint"])
    return await decide(call, command, lambda signer: Reply(200, _signer_view(signer)))


async def listed(call: Asked[PageQuery, None]) -> Reply:
    query = call.query
    found = await queries.list_signers(
        call.services.store, call.caller.tenant, before=moment_and_id(query.cursor), limit=query.limit
    )
    items = [_signer_view(signer) for signer in found.items]
    return Reply(200, Page(items=tuple(items), next_cursor=found.next_cursor))


async def set_terms(call: Asked[None, wire.GrantTermsBody]) -> Answer:
    command = SetGrantTerms(caller=caller_of(call), signed_tasks=tuple(call.body.signed_tasks))
    return await decide(call, command, lambda terms: Reply(200, _terms_view(call, terms)))


async def terms(call: Asked[None, None]) -> Reply:
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

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    Operation(
        id="get_grant_terms", method="GET", path="/api/v1/grants/terms", tag=_TAG, roles=READERS,
        summary="Which tasks need a signed grant, and what to write into one",
        answers={200: wire.GrantTerms}, answer=terms,
    ),
    Operation(
        id="set_grant_terms", method="PUT", path="/api/v1/grants/terms", tag=_TAG, roles=("admin",),
        summary="Say which tasks need a signed grant", body=wire.GrantTermsBody, answers={200: wire.GrantTerms},
        answer=set_terms, example={"signed_tasks": ["deploy", "prod.*"]}, problems=("people_only",),
    ),
    Operation(
        id="list_signers", method="GET", path="/api/v1/signers", tag=_TAG, roles=READERS, query=PageQuery,
        summary="List the keys that grants may be signed with, newest first",
        answers={200: Page[wire.Signer]}, answer=listed,
    ),
    Operation(
        id="add_signer", method="POST", path="/api/v1/signers", tag=_TAG, roles=("admin",), body=wire.AddSignerBody,
        summary="Register a person's public key", answers={201: wire.Signer}, answer=add,
        problems=("not_found", "conflict", "people_only"),
    ),
    Operation(
        id="revoke_signer", method="POST", path="/api/v1/signers/{fingerprint}/revoke", tag=_TAG, roles=("admin",),
        parameters={"fingerprint": "The key's fingerprint."},
        summary="Stop trusting a key", answers={200: wire.Signer}, answer=revoke, problems=("people_only",),
    ),
)  # fmt: skip
