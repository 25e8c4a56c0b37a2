"""The methods of the clients follow one rule: a plural lists, `get_x` reads one, `verb_x` acts.

A verb that only one noun takes stands alone; those are listed here, so that none is added without a thought.
"""

from __future__ import annotations

import pytest

from interlock import AsyncInterlock, Interlock

# Words that stand alone: the contract's, verbs of one noun, and what belongs to the client itself.
ALONE = {
    "submit", "approve", "reject", "refresh", "edit", "withdraw", "comment", "ask", "look", "touch", "wait",
    "gate", "once", "lease", "admit", "granted", "current", "effect", "effect_scope",
    "whoami", "call", "close", "drive",
}  # fmt: skip
VERBS = {
    "acquire", "add", "apply", "approve", "begin", "cancel", "check", "checkpoint", "claim", "clear", "commit",
    "complete", "create", "define", "delete", "end", "evaluate", "fail", "get", "hand_off", "issue", "make",
    "reconcile", "redeliver", "release", "remove", "renew", "rerun", "resolve", "resume", "retry", "revoke",
    "roll_back", "rotate", "set", "simulate", "start", "suspend", "test", "touch",
}  # fmt: skip
NOUNS = {
    "admission_stats", "api_key", "api_keys", "approval", "approvals", "audit_entries", "comments", "conflict",
    "conflict_patterns", "conflicts", "dead_letter", "dead_letters", "effect", "effect_result", "effects",
    "events", "grant", "grant_ledger", "grant_terms", "grant_uses", "grants", "health", "inbox", "inbox_counts",
    "job", "job_history", "jobs", "lease", "lease_checkpoints", "lease_terms", "lease_waiters", "leases",
    "limit", "limits", "metrics", "observed_jobs", "policy", "principal", "principals", "relays", "run",
    "run_timeline", "runs", "session", "sessions", "settings", "sign_in_link", "signer", "signers",
    "signing_keys", "snapshot", "snapshots", "step", "store", "target", "targets", "webhook", "webhooks",
    "workflow", "workflows",
}  # fmt: skip


@pytest.mark.parametrize("client", [Interlock, AsyncInterlock])
def test_a_method_lists_by_a_plural_or_acts_by_a_verb_and_a_noun(client: type) -> None:
    assert [name for name in _methods(client) if not (name in ALONE or _lists(name) or _acts(name))] == []


def test_every_word_of_the_rule_is_used_by_a_method() -> None:
    names = set(_methods(Interlock))
    assert names >= ALONE
    used = {part for name in names - ALONE for part in ((name,) if _lists(name) else _parts(name))}
    assert used == VERBS | NOUNS


def _methods(client: type) -> list[str]:
    return [name for name in dir(client) if not name.startswith("_")]


def _lists(name: str) -> bool:
    return name in NOUNS and name.endswith("s")


def _acts(name: str) -> bool:
    verb, noun = _parts(name)
    return verb in VERBS and noun in NOUNS


def _parts(name: str) -> tuple[str, str]:
    """The verb and the noun; of two verbs that fit the longer is meant."""
    verb = max((verb for verb in VERBS if name.startswith(f"{verb}_")), key=len, default="")
    return verb, name.removeprefix(f"{verb}_")
