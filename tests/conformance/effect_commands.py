"""Commands about effects, targets and conflicts for the differential test, from vocabularies that collide."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from interlock.kernel.world import Command
from interlock.rooms.conflicts.model import Resolution
from interlock.rooms.conflicts.rules import ResolveConflict
from interlock.rooms.effects.model import EffectTarget, Outcome
from interlock.rooms.effects.settlement import CommitEffect, FailEffect, ResolveEffect, SweepOverdueEffects
from interlock.rooms.identity.model import Caller
from interlock.rooms.identity.principals import EnsureLocalPerson
from interlock.rooms.jobs.effect_intent import BeginEffect
from interlock.rooms.jobs.touches import TargetChange, TouchTarget, TouchTargets

Commands = st.SearchStrategy[Command[Any]]

PEOPLE = ("local:mia", "local:tom")

_people = st.sampled_from(PEOPLE)
_callers = st.builds(Caller, tenant=st.just("t"), principal=_people)
_actions = st.sampled_from(["pay", "mail"])
_keys = st.sampled_from(["doc:1", "repo:a/b"])
_versions = st.sampled_from(["v1", "v2", "v3"])
_fences = st.integers(1, 3)
_values = st.sampled_from([msgspec.Raw(b"null"), msgspec.Raw(b'{"ok":true}'), msgspec.Raw(b"1")])
_changes = st.builds(TargetChange, key=_keys, version=_versions, based_on=st.none() | _versions)


def people() -> Commands:
    """Those who act: without them, everything is refused."""
    return st.builds(EnsureLocalPerson, tenant=st.just("t"), name=_people)


def everybody() -> list[Command[Any]]:
    """All of them, to begin with."""
    return [EnsureLocalPerson(tenant="t", name=name) for name in PEOPLE]


def effects() -> Commands:
    targets = st.none() | st.builds(EffectTarget, key=_keys, version=_versions)
    hashes = st.sampled_from(["sha256:one", "sha256:one", "sha256:two"])
    own = {"caller": _callers, "action_id": _actions, "fence": _fences}
    return st.one_of(
        st.builds(BeginEffect, caller=_callers, action_id=_actions, request_hash=hashes, target=targets),
        st.builds(CommitEffect, **own, result=_values),
        st.builds(FailEffect, **own, error=_values, safe_to_retry=st.booleans()),
        st.builds(
            ResolveEffect,
            caller=_callers,
            action_id=_actions,
            outcome=st.sampled_from(Outcome),
            evidence=_values,
        ),
        st.builds(SweepOverdueEffects, most=st.integers(1, 3)),
    )


def targets() -> Commands:
    several = st.lists(_changes, min_size=1, max_size=2, unique_by=lambda change: change.key).map(tuple)
    return st.one_of(
        st.builds(TouchTarget, caller=_callers, change=_changes),
        st.builds(TouchTargets, caller=_callers, changes=several),
    )


def conflicts() -> Commands:
    return st.builds(
        ResolveConflict,
        caller=_callers,
        conflict_id=st.integers(1, 40).map(lambda number: f"cnf_{number:06}"),
        resolution=st.sampled_from(Resolution),
        note=st.just("settled"),
    )
