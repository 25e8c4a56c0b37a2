"""A large body is read in another process, and what becomes of it is the same."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.api.decoder import LARGE_BYTES, decode_body, decode_spelled, is_large, spell_body
from interlock.api.jobs import OPERATIONS
from interlock.api.operations import Call
from interlock.api.problem import ProblemError
from interlock.kernel.codec.canonical import canonical
from interlock.wire.http import Request
from interlock.wire.jobs import SubmitBody

(SUBMIT,) = [operation for operation in OPERATIONS if operation.id == "submit_job"]

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e6, 1e6)
    | st.text('aé\n"\\ㅤ'),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("ab~/", max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


def request(body: bytes) -> Request:
    headers = {"content-type": "application/json"}
    return Request(method="POST", path="/api/v1/jobs", query="", headers=headers, body=body)


def digest(document: Any, body: Any) -> str:
    call: Call[Any, Any, Any, Any] = Call(
        operation_id="submit_job", request=request(b""), request_id="r", services=None, path={}, query=None,
        body=body, document=document,
    )  # fmt: skip
    return call.request_digest()


@given(json_values, st.dictionaries(st.text("ab", min_size=1), st.text("ab"), max_size=2))
def test_read_here_or_elsewhere_it_is_the_same_request(payload: Any, labels: dict[str, str]) -> None:
    sent = json.dumps({"topic": "pay", "payload": payload, "labels": labels, "priority": "high"}).encode()
    here_document, here = decode_body(SUBMIT, request(sent))
    there_document, there = decode_spelled(SUBMIT, spell_body(sent, SubmitBody))

    assert canonical(there.payload) == canonical(here.payload)
    assert msgspec.structs.replace(there, payload=None) == msgspec.structs.replace(here, payload=None)
    assert digest(there_document, there) == digest(here_document, here)


@pytest.mark.parametrize(
    "body",
    [
        b'{"topic": "pay", "payload": {"a": 1, "a": 2}}',
        b'{"topic": "pay", "payload": 1e999}',
        b'{"topic": 1, "payload": {}}',
        b'{"topic": "pay", "payload": {}, "unknown": 1}',
        b"[]",
        b"{",
    ],
)
def test_what_is_refused_here_is_refused_elsewhere_in_the_same_words(body: bytes) -> None:
    with pytest.raises(ProblemError) as here:
        decode_body(SUBMIT, request(body))
    with pytest.raises(ProblemError) as there:
        spell_body(body, SubmitBody)
    assert there.value.problem == here.value.problem


def test_a_small_body_is_read_at_once_and_a_large_one_is_not() -> None:
    assert not is_large(SUBMIT, request(b" " * LARGE_BYTES))
    assert is_large(SUBMIT, request(b" " * (LARGE_BYTES + 1)))
