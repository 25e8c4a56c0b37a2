"""What each operation asks for, the same from both clients, over real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from interlock import Evidence, Target
from interlock.sdk.flow import Response
from interlock.wire.jobs import Job
from tests.sdk.remote_calls import JOB, both, called, sent
from tests.sdk.scripted_server import Cut, in_turn, serving
from tests.sdk.virtual_time import success


@both
def test_submit_sends_what_it_was_given_and_reads_what_it_knows(kind: str) -> None:
    with serving(in_turn(JOB)) as server:
        job = called(
            kind,
            server.url,
            "submit",
            "finance.payment.execute",
            {"amount_cents": 100},
            env="production",
            labels={"team": "a"},
            risk=["money"],
            target=Target(key="acct:1", version="7"),
            evidence=[Evidence(title="Invoice", kind="text", content="…")],
        )
    assert job == Job(id="job_1", state="PENDING", job_hash="sha256:0")
    assert sent(server) == (
        "POST",
        "/api/v1/jobs",
        "",
        {
            "topic": "finance.payment.execute",
            "payload": {"amount_cents": 100},
            "env": "production",
            "labels": {"team": "a"},
            "risk": ["money"],
            "target": {"key": "acct:1", "version": "7"},
            "evidence": [{"title": "Invoice", "kind": "text", "content": "…"}],
        },
    )
    assert server.received[0].headers["authorization"] == "Bearer il_secret"


REVIEW = success(outcome="approved", state="PENDING", job_id="job_1", votes=1, quorum=1)
PAGE = success(items=[], next_cursor=None)
POLICY = success(snapshot="sha256:1")
KEYS = success(keys=[])
WORKFLOW = success(id="month", steps=[])
# Asked by POST, for they have a body; nothing comes of them.
QUESTIONS = {"evaluate_policy", "simulate_policy", "check_lease", "look"}

ROUTES: list[tuple[str, tuple[Any, ...], dict[str, Any], Response, tuple[str, str, str, Any]]] = [
    ("get_job", ("job_1",), {}, JOB, ("GET", "/api/v1/jobs/job_1", "", None)),
    ("get_settings", (), {}, success(version="1"), ("GET", "/api/v1/settings", "", None)),
    ("look", ("job_1",), {}, success(viewers=[]), ("POST", "/api/v1/approvals/job_1/look", "", None)),
    (
        "sessions",
        (),
        {"principal": "ada", "limit": 2},
        PAGE,
        ("GET", "/api/v1/sessions", "principal=ada&limit=2", None),
    ),
    ("sessions", (), {"everybody": True}, PAGE, ("GET", "/api/v1/sessions", "all=true", None)),
    (
        "end_session",
        ("ses_1",),
        {},
        success(session_id="ses_1", principal="ada"),
        ("POST", "/api/v1/sessions/ses_1/end", "", None),
    ),
    (
        "make_sign_in_link",
        (),
        {},
        success(link_id="sil_1", token="sil_1_x", path="/c", expires_at="2026-01-01T00:00:00Z"),
        ("POST", "/api/v1/sign-in-links", "", None),
    ),
    (
        "set_grant_terms",
        (["deploy", "pay*"],),
        {},
        success(
            signed_tasks=["deploy", "pay*"],
            tenant="t",
            approver="ann",
            nonce="gnt_1",
            now="2026-01-01T00:00:00Z",
        ),
        ("PUT", "/api/v1/grants/terms", "", {"signed_tasks": ["deploy", "pay*"]}),
    ),
    (
        "jobs",
        (),
        {"state": "PENDING", "limit": 5},
        PAGE,
        ("GET", "/api/v1/jobs", "state=PENDING&limit=5", None),
    ),
    ("cancel_job", ("job_1",), {}, JOB, ("POST", "/api/v1/jobs/job_1/cancel", "", None)),
    ("retry_job", ("job_1",), {}, JOB, ("POST", "/api/v1/jobs/job_1/retry", "", None)),
    (
        "get_job_history",
        ("job_1",),
        {"cursor": "a b"},
        PAGE,
        ("GET", "/api/v1/jobs/job_1/history", "cursor=a+b", None),
    ),
    ("approvals", (), {"state": "pending"}, PAGE, ("GET", "/api/v1/approvals", "state=pending", None)),
    (
        "get_inbox",
        (),
        {"mine": False, "topic": "pay.*", "q": "a b"},
        PAGE,
        ("GET", "/api/v1/inbox", "mine=false&topic=pay.%2A&q=a+b", None),
    ),
    ("get_inbox_counts", (), {}, success(waiting_for_me=3), ("GET", "/api/v1/inbox/counts", "", None)),
    (
        "approve",
        ("job_1",),
        {"job_hash": "sha256:0"},
        REVIEW,
        ("POST", "/api/v1/approvals/job_1/approve", "", {"job_hash": "sha256:0"}),
    ),
    (
        "reject",
        ("job_1",),
        {"reason": "no", "code": "x"},
        REVIEW,
        ("POST", "/api/v1/approvals/job_1/reject", "", {"reason": "no", "code": "x"}),
    ),
    ("refresh", ("job_1",), {}, JOB, ("POST", "/api/v1/approvals/job_1/refresh", "", None)),
    (
        "edit",
        ("job_1", {"a": 1}),
        {"reason": "less"},
        JOB,
        ("POST", "/api/v1/approvals/job_1/edit", "", {"payload": {"a": 1}, "reason": "less"}),
    ),
    ("get_policy", (), {}, POLICY, ("GET", "/api/v1/policy", "", None)),
    ("apply_policy", ({"version": "v1"},), {}, POLICY, ("PUT", "/api/v1/policy", "", {"version": "v1"})),
    (
        "apply_policy",
        ({"version": "v1"},),
        {"expecting": "sha256:1"},
        POLICY,
        ("PUT", "/api/v1/policy", "expecting=sha256%3A1", {"version": "v1"}),
    ),
    ("snapshots", (), {}, PAGE, ("GET", "/api/v1/policy/snapshots", "", None)),
    ("get_snapshot", ("sha256:1",), {}, POLICY, ("GET", "/api/v1/policy/snapshots/sha256%3A1", "", None)),
    (
        "roll_back_policy",
        ("sha256:1",),
        {},
        POLICY,
        ("POST", "/api/v1/policy/rollback", "", {"snapshot": "sha256:1"}),
    ),
    (
        "evaluate_policy",
        ({"topic": "pay"},),
        {},
        success(decision="allow"),
        ("POST", "/api/v1/policy/evaluate", "", {"topic": "pay"}),
    ),
    (
        "simulate_policy",
        ("version: v1",),
        {},
        success(snapshot="sha256:1"),
        ("POST", "/api/v1/policy/simulate", "", {"policy": "version: v1"}),
    ),
    (
        "check_lease",
        ("lse_1", 1),
        {},
        success(current=True, state="held", current_fence=1),
        ("POST", "/api/v1/leases/lse_1/check", "", {"fence": 1}),
    ),
    (
        "define_workflow",
        ("month", [{"id": "pay", "topic": "a.b"}]),
        {},
        WORKFLOW,
        ("PUT", "/api/v1/workflows/month", "", {"steps": [{"id": "pay", "topic": "a.b"}]}),
    ),
    ("get_workflow", ("month",), {}, WORKFLOW, ("GET", "/api/v1/workflows/month", "", None)),
    ("workflows", (), {"limit": 3}, PAGE, ("GET", "/api/v1/workflows", "limit=3", None)),
    ("get_run_timeline", ("run_1",), {}, PAGE, ("GET", "/api/v1/workflow-runs/run_1/timeline", "", None)),
    (  # What nobody said is not sent, not even as its default: the request that a key stands for would be another.
        "approve_step",
        ("run_1", "ask"),
        {"job_hash": "sha256:0"},
        REVIEW,
        (
            "POST",
            "/api/v1/workflow-runs/run_1/steps/ask/approve",
            "",
            {"reason": "", "job_hash": "sha256:0"},
        ),
    ),
    ("signing_keys", (), {}, KEYS, ("GET", "/api/v1/keys", "", None)),
    (
        "rotate_signing_keys",
        (),
        {"revoke": True},
        KEYS,
        ("POST", "/api/v1/keys/rotate", "", {"lead_seconds": 300, "revoke": True}),
    ),
    ("audit_entries", (), {"subject": "job_1"}, PAGE, ("GET", "/api/v1/audit", "subject=job_1", None)),
    ("get_health", (), {}, success(status="ready"), ("GET", "/readyz", "", None)),
    ("call", ("GET", "a b", "c/d"), {"query": {"q": 1}}, PAGE, ("GET", "/api/v1/a%20b/c%2Fd", "q=1", None)),
]


@both
@pytest.mark.parametrize("route", ROUTES, ids=[route[0] for route in ROUTES])
def test_an_operation_asks_for_its_route(kind: str, route: tuple[Any, ...]) -> None:
    name, args, kwargs, answer, expected = route
    with serving(in_turn(answer)) as server:
        called(kind, server.url, name, *args, **kwargs)
    assert sent(server) == expected


@both
def test_every_change_carries_an_idempotency_key_and_no_two_calls_share_one(kind: str) -> None:
    keys: set[str] = set()
    changes = [route for route in ROUTES if route[4][0] != "GET" and route[0] not in QUESTIONS]
    for name, args, kwargs, answer, _ in changes * 2:
        with serving(in_turn(answer)) as server:
            called(kind, server.url, name, *args, **kwargs)
        keys.add(server.received[0].headers["idempotency-key"])
    assert len(keys) == 2 * len(changes)


@both
@pytest.mark.parametrize("route", [route for route in ROUTES if route[0] in QUESTIONS], ids=sorted(QUESTIONS))
def test_a_question_asks_for_no_answer_to_be_kept_and_is_repeated_even_so(
    kind: str, route: tuple[Any, ...]
) -> None:
    name, args, kwargs, answer, _ = route
    with serving(in_turn(Cut(), answer)) as server:
        called(kind, server.url, name, *args, **kwargs)
    assert ["idempotency-key" in request.headers for request in server.received] == [False, False]


@both
def test_a_named_change_has_the_same_key_in_every_process_and_for_every_client(kind: str) -> None:
    with serving(in_turn(JOB)) as server:
        for _ in range(2):
            called(kind, server.url, "submit", "a.b", {"x": 1}, key="invoice 7")
        called(kind, server.url, "submit", "a.c", {"x": 1}, key="invoice 7")
        called(kind, server.url, "cancel_job", "job_1", key="invoice 7")
        called(kind, server.url, "cancel_job", "job_2", key="invoice 7")
    keys = [request.headers["idempotency-key"] for request in server.received]
    assert keys[0] == keys[1] == "sha256:" + NAMED
    assert len(set(keys)) == 4


# Written down: a new release that derived another key would ask people twice.
NAMED = "5d92a5730032a6447ce8e3cac146ce74024562b27f04515c14fa3c5d9fe71be4"


@both
def test_one_word_is_never_sent_as_its_letters(kind: str) -> None:
    none = success(jobs=[])
    page = success(items=[], next_after=0)
    with serving(in_turn(JOB, none, page)) as server:
        called(kind, server.url, "submit", "pay", {}, risk="money")
        called(kind, server.url, "claim_jobs", "pay.*")
        called(kind, server.url, "events", types="approval.*")
    assert sent(server, 0)[3]["risk"] == ["money"]
    assert sent(server, 1)[3]["topics"] == ["pay.*"]
    assert sent(server, 2)[2] == "types=approval.%2A"


@both
def test_what_a_verb_is_about_may_follow_without_its_name(kind: str) -> None:
    effect = success(action_id="a", state="COMMITTED")
    with serving(in_turn(REVIEW, JOB, JOB, effect, effect)) as server:
        called(kind, server.url, "reject", "job_1", "no")
        called(kind, server.url, "complete_job", "job_1", 7, {"id": 1})
        called(kind, server.url, "fail_job", "job_1", 7, "broken")
        called(kind, server.url, "commit_effect", "a", 1, {"id": 1})
        called(kind, server.url, "resolve_effect", "a", "committed", "the bank says so")
    assert [sent(server, place)[3] for place in range(5)] == [
        {"reason": "no"},
        {"fence": 7, "result": {"id": 1}},
        {"fence": 7, "error": "broken", "retryable": True},
        {"fence": 1, "result": {"id": 1}},
        {"outcome": "committed", "evidence": "the bank says so"},
    ]
