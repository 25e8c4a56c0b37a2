"""Paths lead where they should, and those that lead nowhere say so usefully."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.service.router import MethodNotAllowed, NoRoute, Router
from interlock.wire.http import NotDecodable

ROUTES = [
    ("GET", "/", "root"),
    ("GET", "/jobs", "list"),
    ("POST", "/jobs", "submit"),
    ("POST", "/jobs/claim", "claim"),
    ("GET", "/jobs/{id}", "read"),
    ("POST", "/jobs/{id}/renew", "renew"),
    ("GET", "/targets/{key}", "target"),
    ("POST", "/targets/{key}/touch", "touch"),
    ("GET", "/a/{x}/b/{y}", "two"),
    ("GET", "/a/fixed/{z}/c", "late"),
]


@pytest.fixture
def router() -> Router[str]:
    return Router(ROUTES)


def refusal(router: Router[str], method: str, path: str) -> Exception:
    with pytest.raises((NoRoute, MethodNotAllowed, NotDecodable)) as refused:
        router.find(method, path)
    return refused.value


@pytest.mark.parametrize(
    ("method", "path", "leads_to", "parameters"),
    [
        ("GET", "/", "root", {}),
        ("POST", "/jobs", "submit", {}),
        ("GET", "/jobs/job_1", "read", {"id": "job_1"}),
        ("POST", "/jobs/claim", "claim", {}),
        ("POST", "/jobs/claim/renew", "renew", {"id": "claim"}),
        ("HEAD", "/jobs", "list", {}),
        ("HEAD", "/jobs/job_1", "read", {"id": "job_1"}),
        ("GET", "/%6Aobs/x", "read", {"id": "x"}),
        ("GET", "/targets/repo%3Abilling%2Finvoice.py", "target", {"key": "repo:billing/invoice.py"}),
        ("GET", "/targets/repo:billing", "target", {"key": "repo:billing"}),
        ("GET", "/targets/caf%C3%A9%20%F0%9F%98%80", "target", {"key": "café 😀"}),
        ("GET", "/targets/100%25", "target", {"key": "100%"}),
        ("GET", "/targets/a+b", "target", {"key": "a+b"}),
        ("GET", "/targets/..", "target", {"key": ".."}),
        ("GET", "/targets/%2e%2E%2fjobs", "target", {"key": "../jobs"}),
        ("POST", "/targets/%2F/touch", "touch", {"key": "/"}),
        ("GET", "/a/1/b/2", "two", {"x": "1", "y": "2"}),
        ("GET", "/a/fixed/b/2", "two", {"x": "fixed", "y": "2"}),
        ("GET", "/a/fixed/q/c", "late", {"z": "q"}),
    ],
)
def test_a_path_leads_to_its_route(
    router: Router[str], method: str, path: str, leads_to: str, parameters: dict[str, str]
) -> None:
    assert router.find(method, path) == (leads_to, parameters)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "jobs",
        "/nothing",
        "/jobs/x/y",
        "/jobs//renew",
        "//jobs",
        "/jobs/a/b/c/d/e",
        "/JOBS",
        "*",
        "/" * 9000,
    ],
)
def test_a_path_that_leads_nowhere_is_not_found(router: Router[str], path: str) -> None:
    assert isinstance(refusal(router, "GET", path), NoRoute)


@pytest.mark.parametrize("path", ["/jobs/", "/targets/x/", "/jobs/x/renew/"])
def test_a_slash_too_many_is_not_found_and_the_answer_says_so(router: Router[str], path: str) -> None:
    refused = refusal(router, "GET", path)
    assert isinstance(refused, NoRoute)
    assert refused.without_slash


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/jobs", "GET, HEAD, OPTIONS, POST"),
        ("PUT", "/jobs/claim", "OPTIONS, POST"),
        ("GET", "/jobs/claim", "OPTIONS, POST"),  # as OpenAPI has it: the literal path is the one meant
        ("GET", "/jobs/x/renew", "OPTIONS, POST"),
        ("HEAD", "/jobs/x/renew", "OPTIONS, POST"),
        ("BREW", "/targets/x", "GET, HEAD, OPTIONS"),
        ("get", "/jobs", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_another_method_is_refused_with_those_allowed(
    router: Router[str], method: str, path: str, allowed: str
) -> None:
    refused = refusal(router, method, path)
    assert isinstance(refused, MethodNotAllowed)
    assert refused.allowed == allowed


@pytest.mark.parametrize("key", ["%", "%2", "%zz", "%ff", "%C3", "%00", "%ED%A0%80", "a%", "%%20"])
def test_percent_encoding_that_spells_no_text_is_an_invalid_request(router: Router[str], key: str) -> None:
    assert isinstance(refusal(router, "GET", f"/targets/{key}"), NotDecodable)


def test_two_routes_for_one_shape_of_path_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="two routes"):
        Router([("GET", "/jobs/{id}", 1), ("GET", "/jobs/{key}", 2)])


@pytest.mark.parametrize(
    ("method", "path", "leads_to", "key"),
    [
        ("GET", "/targets/repo:billing/src/invoice.py", "target", "repo:billing/src/invoice.py"),
        ("POST", "/targets/repo:billing/invoice.py/touch", "touch", "repo:billing/invoice.py"),
        ("POST", "/targets/a/touch/touch", "touch", "a/touch"),
        ("POST", "/targets/https://host/x/touch", "touch", "https://host/x"),
        ("GET", "/targets/a%2Fb/c", "target", "a/b/c"),
    ],
)
def test_a_parameter_that_spans_takes_slashes_as_they_are(
    method: str, path: str, leads_to: str, key: str
) -> None:
    assert Router(ROUTES, spanning=["key"]).find(method, path) == (leads_to, {"key": key})


@pytest.mark.parametrize("path", ["/targets/a/", "/targets//", "/jobs/a/b", "/targets/" + "a/" * 100 + "b"])
def test_nothing_else_spans(path: str) -> None:
    assert isinstance(refusal(Router(ROUTES, spanning=["key"]), "GET", path), NoRoute)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_key_survives_being_encoded_into_a_path(key: str) -> None:
    from urllib.parse import quote

    encoded = quote(key, safe="")
    assert Router(ROUTES).find("POST", f"/targets/{encoded}/touch") == ("touch", {"key": key})


@given(st.text(), st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", ""]))
def test_no_path_raises_anything_but_what_the_router_promises(path: str, method: str) -> None:
    router = Router(ROUTES)
    with contextlib.suppress(NoRoute, MethodNotAllowed, NotDecodable):
        router.find(method, path)
