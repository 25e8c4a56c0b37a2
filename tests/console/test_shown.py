"""What is shown is text: nothing of a payload or of evidence runs, and nothing of it is hidden."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.console.sentence import title_of
from interlock.console.shown import (
    changed_lines,
    duration,
    editable,
    evidence_body,
    money_in,
    payload,
    text_of,
    web_link,
)
from interlock.kernel.codec.visible import is_visible
from interlock.wire.jobs import Evidence, Job

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(JSON)
def test_no_markup_of_a_payload_survives(value: object) -> None:
    shown = str(payload(value))
    assert "<script" not in shown
    assert shown.count("<img") == 0


@given(st.text())
def test_every_character_is_there_or_spelled_out(text: str) -> None:
    shown = text_of(text)
    assert shown.unescape().count("<span") == shown.count("<span") + text.count("<span")
    assert text.isprintable() or "unseen" in shown


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"amount_cents": 25_000, "currency": "EUR"}, "250.00 EUR"),
        ({"amount_cents": 5}, "0.05"),
        ({"amount_cents": 100, "currency": "JPY"}, "100 JPY"),
        ({"amount": 12.5, "currency": "USD"}, "12.5 USD"),
        ({"amount": 12.5}, None),
        ({"amount_cents": True, "currency": "EUR"}, None),
        ({"amount_cents": "25000", "currency": "EUR"}, None),
    ],
)
def test_money_is_recognised_where_it_is_sure(fields: dict[str, object], said: str | None) -> None:
    assert money_in(fields) == said


ACME = {"amount_cents": 25_000, "currency": "EUR", "to": "Acme"}


@pytest.mark.parametrize(
    ("topic", "fields", "said"),
    [
        ("finance.payment.execute", ACME, "Pays 250.00 EUR to Acme in production"),
        ("deploy.service", {"service": "api", "version": "4f2c"}, "Deploys api at 4f2c in production"),
        ("customer.notify", {"recipients": ["a", "b"]}, "Sends a message to 2 recipients in production"),
        ("knowledge.sync", {"a": 1}, "Runs knowledge.sync in production"),
        ("finance.payment.execute", {"to": "\u202eemcA"}, "Runs finance.payment.execute to \\u202eemcA in production"),
    ],
)  # fmt: skip
def test_a_job_is_said_in_a_sentence(topic: str, fields: dict[str, object], said: str) -> None:
    job = Job(id="job_1", state="APPROVAL", topic=topic, env="production", payload=fields, job_hash="x")
    assert title_of(job) == said


@pytest.mark.parametrize(
    "address", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "//x", "http://"]
)
def test_only_web_addresses_become_links(address: str) -> None:
    assert "<a" not in web_link(address)


def test_a_link_says_where_it_goes() -> None:
    assert "goes to evil.example" in web_link("https://bank.example@evil.example/pay")
    assert "goes to xn--bnk-qla.example" in web_link("https://bänk.example/")


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example\\@bank.example/",
        "https://evil.example\\.bank.example/",
        "https://bank.example%2eevil.example/",
    ],
)
def test_an_address_that_browsers_read_differently_is_no_link(address: str) -> None:
    assert "<a" not in web_link(address)
    assert "<a" not in payload({"url": address})


def test_a_link_leads_to_the_host_that_is_shown_whichever_names_a_browser_knows() -> None:
    shown = web_link("https://a@straße.example:8443/b?c#d")
    assert 'href="https://a@strasse.example:8443/b?c#d"' in shown
    assert "goes to strasse.example" in shown


@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-05:00", "0001-01-01T00:00:00+05:00"])
def test_a_time_that_no_calendar_has_in_utc_is_shown_as_it_is(time: str) -> None:
    assert time in payload({"at": time})


def test_a_payload_of_very_many_values_is_shown_whole_and_small() -> None:
    shown = payload([0] * 20_000 + ["last"])
    assert "shown as JSON" in shown
    assert shown.count("0,\n") == 20_000
    assert "last" in shown
    assert len(shown) < 200_000


def test_a_change_behind_the_lines_that_are_compared_is_told() -> None:
    old = editable([0] * 6000)
    new = editable([*[0] * 5999, 1])
    assert "differs too" in changed_lines(old, new)[-1][1]
    assert changed_lines(old, old) == []


@given(JSON)
def test_json_to_edit_is_the_same_value_with_every_character_visible(value: object) -> None:
    text = editable(value)
    assert msgspec.json.decode(text) == msgspec.json.decode(msgspec.json.encode(value))
    assert is_visible(text.replace("\n", ""))


def test_very_deep_json_is_not_shown_as_indentation() -> None:
    deep: object = [7] * 100_000
    for _ in range(60):
        deep = [deep]
    shown = payload(deep)
    assert shown.count("7") == 100_000
    assert len(shown) < 1_000_000


def test_a_run_of_characters_that_cannot_be_seen_is_marked_once() -> None:
    shown = text_of("a" + "\u200b" * 1000 + "\u200c<b>")
    assert shown.count("<span") == 1
    assert 'title="U+200B, U+200C"' in shown
    assert shown.count("\\u200b") == 1000
    assert "&lt;b&gt;" in shown


@pytest.mark.parametrize(
    ("kind", "content", "there", "absent"),
    [
        ("markdown", "# Hi\n<script>x</script>", "<h1>Hi</h1>", "<script"),
        ("markdown", "[pay](javascript:alert(1))", "pay", "href"),
        ("markdown", "[bank](https://evil.example/)", "goes to evil.example", "<script"),
        ("markdown", "![x](https://evil.example/pixel.png)", "x", "<img"),
        ("json", '{"a": "<b>"}', "&lt;b&gt;", "<b>"),
        ("json", "{not json", "{not json", "<table"),
        ("json", "[" * 5000, "[" * 5000, "<ol"),
        ("image", "data:image/png;base64,AAAA", "<img", "script"),
        ("image", "javascript:alert(1)", "javascript:alert(1)", "<img"),
        ("image/svg+xml", "data:image/svg+xml,<svg onload=alert(1)>", "&lt;svg", "<img"),
        ("html", "<iframe src=x>", "&lt;iframe", "<iframe"),
        ("text", "a\u202eb", "\\u202e", "\u202e"),
        ("markdown", "a\u202eb", "\\u202e", "\u202e"),
    ],
)
def test_evidence_runs_nothing(kind: str, content: str, there: str, absent: str) -> None:
    body = str(evidence_body(Evidence(title="t", kind=kind, content=content)))
    assert there in body
    assert absent not in body


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 s"), (45, "45 s"), (5400, "1 h 30 min"), (90_061, "1 d 1 h")]
)
def test_durations_are_said_in_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said
