"""What `--help` says after the options, as a manual page would: examples, exit codes and related commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXIT_CODES = """\
exit codes:
  0 done, 1 error, 2 wrong usage, 3 denied or rejected, 4 still waiting,
  5 busy or full (try again later), 6 out of reach or could not be evaluated
"""

# Examples of verbs that those of their noun do not show.
_EXAMPLES: Mapping[str, Sequence[str]] = {
    "effect fail": (
        "interlock effect fail refund:4711 --fence 1 --error 'the bank said no' --safe-to-retry",
    ),
    "job show": ("interlock job show job_… --history",),
    "key list": ("interlock key list --principal mia --json",),
    "limit show": ("interlock limit tenant", "interlock limit show nightly-report --json"),
    "principal show": ("interlock principal mia",),
    "workflow show": ("interlock workflow nightly",),
    "lease check": ("interlock lease check lse_… --fence 17 && git push",),
    "lease release": ("interlock lease release lse_… --fence 17",),
    "lease renew": ("interlock lease renew lse_… --fence 17 --progress '{\"files\": 3}'",),
    "lease resume": ("interlock lease resume lse_… --fence 17",),
    "lease show": ("interlock lease lse_…",),
    "lease suspend": ("interlock lease suspend lse_… --fence 17 --reason waiting_on_review",),
    "policy observed": ("interlock policy observed --limit 20",),
    "policy rollback": ("interlock policy rollback sha256:…",),
    "policy show": ("interlock policy show > policy.yaml", "interlock policy show sha256:…"),
    "policy snapshots": ("interlock policy snapshots",),
    "revoke": ("interlock revoke gnt_… --reason 'the release is off'",),
    "run forget": ("interlock run forget run_…",),
    "run timeline": ("interlock run timeline run_…",),
    "version": ("interlock version --json",),
    "webhook redeliver": ("interlock webhook redeliver wh_… evt_…",),
    "webhook remove": ("interlock webhook remove wh_…",),
    "webhook rotate": ("interlock webhook rotate wh_…",),
    "workflow delete": ("interlock workflow delete nightly",),
}

_RELATED: Mapping[str, Sequence[str]] = {
    "submit": ("jobs", "job", "policy evaluate"),
    "jobs": ("job", "approvals", "events"),
    "job": ("jobs", "approval", "audit"),
    "cancel": ("job", "retry"),
    "retry": ("jobs", "worker"),
    "approvals": ("review", "approval", "approve", "reject"),
    "review": ("approvals", "approval"),
    "approval": ("approvals", "approve", "reject", "edit", "refresh"),
    "approve": ("approval", "reject", "withdraw"),
    "reject": ("approval", "approve"),
    "refresh": ("approval", "policy"),
    "edit": ("approval", "approve"),
    "withdraw": ("approve", "approval"),
    "comment": ("ask", "approval"),
    "ask": ("comment", "approval"),
    "grants": ("grant", "revoke"),
    "grant": ("grants", "revoke", "exec", "claim", "signer"),
    "revoke": ("grants", "grant"),
    "board": ("approvals", "leases", "conflicts", "runs"),
    "leases": ("lease", "board"),
    "lease": ("leases", "board", "conflicts"),
    "effects": ("effect",),
    "effect": ("effects", "claim"),
    "touch": ("hook", "targets", "conflicts"),
    "targets": ("target", "touch"),
    "target": ("targets", "leases"),
    "conflicts": ("conflict", "targets"),
    "conflict": ("conflicts", "target"),
    "hook": ("touch", "target"),
    "policy": ("jobs", "approvals", "refresh"),
    "workflows": ("workflow", "runs"),
    "workflow": ("workflows", "run"),
    "runs": ("run", "limits"),
    "run": ("runs", "limits", "workflow"),
    "limits": ("limit", "runs", "traffic"),
    "limit": ("limits", "runs"),
    "traffic": ("limits", "runs"),
    "audit": ("events", "job"),
    "events": ("audit", "webhooks"),
    "webhooks": ("webhook", "events"),
    "webhook": ("webhooks", "events"),
    "principals": ("principal", "keys"),
    "principal": ("principals", "key"),
    "keys": ("key", "principals", "signing-keys"),
    "key": ("keys", "principal", "login"),
    "sessions": ("session", "open"),
    "session": ("sessions", "open"),
    "signers": ("signer", "grant"),
    "signer": ("signers", "grant"),
    "signing-keys": ("signing-key", "keys"),
    "signing-key": ("signing-keys", "worker"),
    "init": ("serve", "policy", "demo"),
    "serve": ("settings", "doctor", "open"),
    "login": ("logout", "whoami", "key"),
    "logout": ("login", "whoami"),
    "whoami": ("login", "principal"),
    "open": ("serve", "sessions"),
    "exec": ("grant", "approvals", "claim"),
    "claim": ("grant", "exec"),
    "worker": ("jobs", "submit"),
    "doctor": ("settings", "drill"),
    "settings": ("serve", "doctor"),
    "drill": ("doctor", "demo"),
    "demo": ("init", "serve", "drill"),
    "completion": ("version",),
    "version": ("doctor",),
}


def examples_of(prog: str) -> Sequence[str]:
    """Examples of a command or a verb that are declared nowhere else."""
    return _EXAMPLES.get(prog.removeprefix("interlock "), ())


def related_to(name: str) -> Sequence[str]:
    """What else is good to know for whom a command is not enough."""
    return _RELATED.get(name, ())


def after_options(prog: str, examples: Sequence[str], more: str) -> str:
    """The end of a command's help: its examples, what else it says, its exit codes and related commands."""
    name = prog.split()[1]
    related = ", ".join(f"interlock {each}" for each in related_to(name))
    parts = (
        "\n".join(("examples:", *(f"  {example}" for example in examples))) if examples else "",
        more.strip("\n"),
        "" if "exit codes:" in more else EXIT_CODES.strip("\n"),
        f"see also: {related}" if related else "",
    )
    return "\n\n".join(part for part in parts if part)
