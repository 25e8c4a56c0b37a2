"""Signing in with an identity provider in a real browser, at a provider that others wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.browser import audit_accessibility
from tests.harness.console_site import Company, ConsoleSite
from tests.harness.mock_provider import MockProvider


@pytest.fixture(scope="module")
def provider() -> Iterator[MockProvider]:
    provider = MockProvider().start()
    yield provider
    provider.close()


@pytest.fixture(scope="module")
def site(
    company: Company, provider: MockProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleSite]:
    folder: Path = tmp_path_factory.mktemp("oidc-browser")
    (folder / "oidc.toml").write_text(
        '[away]\nname = "a provider that is away"\nissuer = "http://127.0.0.1:9"\nclient_id = "x"\n'
    )
    env = {
        "INTERLOCK_OIDC_ISSUER": provider.issuer,
        "INTERLOCK_OIDC_CLIENT_ID": "interlock",
        "INTERLOCK_OIDC_CLIENT_SECRET": "hush",
        "INTERLOCK_OIDC_NAME": "Acme",
        "INTERLOCK_OIDC_ROLES": "finance=review",
        "INTERLOCK_OIDC_PROVIDERS": str(folder / "oidc.toml"),
    }
    site = ConsoleSite(company, folder, env=env)
    yield site.start()
    site.close()


def continue_as(page: Page, subject: str) -> None:
    """Press our link, and say at the provider who one is."""
    page.get_by_role("link", name="Continue with Acme").click()
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize").click()


def test_a_person_of_the_provider_decides_the_request_whose_link_they_followed(
    site: ConsoleSite, provider: MockProvider, page: Page
) -> None:
    provider.set_account("s-kim", preferred_username="kim", groups=["finance"])
    job = site.submit(25_000)
    page.goto(f"{site.url}/console/approvals/{job.id}")
    continue_as(page, "s-kim")
    expect(page).to_have_url(f"{site.url}/console/approvals/{job.id}")
    page.get_by_role("button", name="Approve").first.click()
    expect(page.get_by_role("status").first).to_contain_text("pproved")
    (vote,) = site.client(site.ann).get_approval(job.id).votes
    assert vote.principal == "kim"


def test_it_works_without_javascript(site: ConsoleSite, provider: MockProvider, plain_page: Page) -> None:
    provider.set_account("s-lou", preferred_username="lou", groups=["finance"])
    plain_page.goto(f"{site.url}/console/inbox")
    continue_as(plain_page, "s-lou")
    expect(plain_page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_somebody_without_a_role_is_told_so(site: ConsoleSite, provider: MockProvider, page: Page) -> None:
    provider.set_account("s-pat", preferred_username="pat", groups=["others"])
    page.goto(f"{site.url}/console/inbox")
    continue_as(page, "s-pat")
    expect(page).to_have_url(f"{site.url}/console/inbox")
    expect(page.get_by_role("alert")).to_contain_text("pat")


def test_a_no_at_the_provider_leads_back_to_the_sign_in_page(site: ConsoleSite, page: Page) -> None:
    page.goto(f"{site.url}/console/inbox")
    page.get_by_role("link", name="Continue with Acme").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("alert")).to_contain_text("Begin again")
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_provider_that_is_away_is_said_and_the_key_still_works(
    site: ConsoleSite, page_in_each_scheme: Page
) -> None:
    page = page_in_each_scheme
    page.goto(f"{site.url}/console/sign-in?next=/console/inbox")
    audit_accessibility(page)
    page.get_by_role("link", name="Continue with a provider that is away").click()
    expect(page.get_by_role("alert")).to_contain_text("does not answer")
    audit_accessibility(page)
    page.get_by_label("API key").fill(site.bob)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
