"""Role by role, page by page, form by form: made from the operations of the API and the routes of the console.

A person who may not call an operation is not shown its page and is offered no form that calls it. Sent all the same,
the form is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape

import httpx2
import pytest

from interlock.api.assembly import OPERATIONS
from interlock.console.pages import PAGES
from interlock.console.visit import (
    _DECIDED_INSIDE,  # pyright: ignore[reportPrivateUsage]
    PageRoute,
)
from interlock.rooms.identity.model import Role
from interlock.service.router import Router
from tests.console.busy_company import DEAD_AT_ONCE, long_history
from tests.harness.console_site import Company, ConsoleSite

ROLES = {operation.id: _DECIDED_INSIDE.get(operation.id) or operation.roles for operation in OPERATIONS}
ROUTER: Router[PageRoute] = Router(
    ((page.method, page.path, page) for page in PAGES), spanning=("file", "key", "action_id")
)
GUARDED = [page for page in PAGES if not page.public]


_TAG = re.compile(
    r"""<(form|button)((?:\s+[\w:-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+))?)*)\s*/?>""", re.IGNORECASE
)
_ATTRIBUTE = re.compile(r"""([\w:-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")


def forms(text: str) -> set[str]:
    """Where the forms of a page lead that post, and each button that sends one elsewhere."""
    tags = list(_TAG.finditer(text))
    # A tag that cannot be read would hide a form.
    assert len(tags) == len(re.findall(r"<(?:form|button)\b", text, re.IGNORECASE))
    actions: set[str] = set()
    posts = False
    for tag in tags:
        given = _attributes(tag[2])
        if tag[1].lower() == "form":
            posts = given.get("method", "get").lower() == "post"
            actions |= {given.get("action", "")} if posts else set()
        elif posts and given.get("formaction") and given.get("formmethod", "").lower() != "get":
            actions.add(given["formaction"])
    return {re.split("[?#]", action)[0] for action in actions}


def _attributes(written: str) -> dict[str, str]:
    return {
        found[1].lower(): unescape(found[2] or found[3] or found[4] or "")
        for found in _ATTRIBUTE.finditer(written)
    }


def may(role: Role, page: PageRoute) -> bool:
    allowed = ROLES.get(page.operation, ())
    return not allowed or role in allowed


@pytest.fixture(scope="module")
def site(company: Company, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleSite]:
    site = ConsoleSite(company, tmp_path_factory.mktemp("rights"), env=DEAD_AT_ONCE).start()
    yield site
    site.close()


@pytest.fixture(scope="module")
def addresses(site: ConsoleSite) -> list[str]:
    """Every page, with something on it to offer."""
    found = [*long_history(site), "/console/workflows?tab=limits", "/console/policy?tab=snapshots"]
    listed = {ROUTER.find("GET", address.partition("?")[0])[0].path for address in found}
    unlisted = {page.path for page in GUARDED if page.method == "GET"} - listed
    # A stream, a sandbox without forms, and an answer to a form.
    assert unlisted == {
        "/console/events", "/console/approvals/{job_id}/evidence/{index}", "/console/sessions/end",
    }  # fmt: skip
    return found


@pytest.fixture(scope="module")
def job_id(site: ConsoleSite) -> str:
    return site.submit(target={"key": "invoice:1", "version": "1"}).id


@pytest.fixture(scope="module", params=list(Role), ids=lambda role: role.value)
def role(request: pytest.FixtureRequest) -> Role:
    return request.param


@pytest.fixture(scope="module")
def http(site: ConsoleSite, role: Role) -> Iterator[httpx2.Client]:
    key = site.server.create_key(f"only-{role.value}", kind="person", roles=role.value).key
    headers = {"origin": site.url, "accept": "text/html"}
    with httpx2.Client(base_url=site.url, headers=headers, timeout=30) as client:
        assert client.post("/console/sign-in", data={"api_key": key}).status_code == 303
        yield client


def test_every_page_names_the_operation_that_it_needs() -> None:
    assert [page.path for page in GUARDED if page.operation not in ROLES] == []


def test_a_page_is_shown_to_those_who_may_read_it(http: httpx2.Client, role: Role, job_id: str) -> None:
    wrong: list[str] = []
    for page in GUARDED:
        if page.method != "GET" or page.path.endswith("/events"):
            continue
        path = page.path.replace("{job_id}", job_id).replace("{index}", "0")
        status = http.get(path).status_code
        fits = status == 403 if not may(role, page) else status != 403 and status < 500
        if not fits:
            wrong.append(f"{role.value}: GET {page.path} is {status}")
    assert wrong == []


def test_no_page_offers_what_is_not_allowed(http: httpx2.Client, role: Role, addresses: list[str]) -> None:
    wrong: list[str] = []
    for address in addresses:
        page, _ = ROUTER.find("GET", address.partition("?")[0])
        answer = http.get(address)
        if answer.status_code != (200 if may(role, page) else 403):
            wrong.append(f"{role.value}: {address} is {answer.status_code}")
        for action in forms(answer.text):
            leads_to, _ = ROUTER.find("POST", action)
            if not leads_to.public and not may(role, leads_to):
                wrong.append(f"{role.value}: {address} offers {leads_to.path} ({leads_to.operation})")
    assert wrong == []


def test_what_is_not_offered_is_refused_all_the_same(http: httpx2.Client, role: Role, job_id: str) -> None:
    wrong: list[str] = []
    for page in GUARDED:
        if page.method != "POST" or may(role, page):
            continue
        path = page.path.replace("{job_id}", job_id)
        answer = http.post(path, data={"reason": "x"})
        if answer.status_code != 403:
            wrong.append(f"{role.value}: POST {page.path} is {answer.status_code}")
    assert wrong == []
