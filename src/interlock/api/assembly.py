"""Builds the whole API: every room's operations over one service."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from interlock.api import (
    admission,
    approvals,
    audit,
    conflicts,
    effects,
    events,
    grants,
    health,
    identity,
    inbox,
    jobs,
    leases,
    permits,
    policy,
    settings,
    targets,
    traffic,
    webhooks,
    workers,
    workflows,
)
from interlock.api.app import App
from interlock.api.descriptions import describing
from interlock.api.heads import authenticate
from interlock.api.operations import Operation
from interlock.api.problems import translator
from interlock.console.client import OperationFacts
from interlock.service.keyring import Known
from interlock.service.logs import Log
from interlock.service.metrics import Registry
from interlock.service.service import Service
from interlock.wire.codes import codes_with
from interlock.wire.http import Request

OPERATIONS: tuple[Operation[Known, Service, Any, Any], ...] = (
    *policy.OPERATIONS,
    *jobs.OPERATIONS,
    *workers.OPERATIONS,
    *permits.OPERATIONS,
    *approvals.OPERATIONS,
    *inbox.OPERATIONS,
    *admission.OPERATIONS,
    *traffic.OPERATIONS,
    *workflows.OPERATIONS,
    *leases.OPERATIONS,
    *effects.OPERATIONS,
    *targets.OPERATIONS,
    *conflicts.OPERATIONS,
    *grants.OPERATIONS,
    *identity.OPERATIONS,
    *audit.OPERATIONS,
    *events.OPERATIONS,
    *webhooks.OPERATIONS,
    *settings.OPERATIONS,
    *health.OPERATIONS,
)

Authenticate = Callable[[Request, Service], Awaitable[Known]]


def assemble(service: Service, log: Log, *, who: Authenticate = authenticate) -> App[Known, Service]:
    """An app that serves every operation and describes them at /openapi.json and /docs."""
    codes = codes_with(lock_busy_status=service.settings.lock_busy_status)
    return App(
        operations=(*OPERATIONS, *describing(OPERATIONS, codes=codes)),
        services=service,
        authenticate=who,
        translate=translator(service.settings.lock_busy_status),
        log=log,
        metrics=service.registry,
        apart=service.compute_pool,
    )


def assemble_metrics(service: Service, log: Log) -> App[Known, Service]:
    """An app for monitoring systems: the figures of every tenant, and nothing else."""
    return App(
        operations=health.WATCHING,
        services=service,
        authenticate=authenticate,
        translate=translator(service.settings.lock_busy_status),
        log=log,
        metrics=Registry(),
    )


def facts_of(operations: Iterable[Operation[Known, Service, Any, Any]]) -> dict[str, OperationFacts]:
    """What pages of the console know of the operations that they call."""
    return {
        each.id: OperationFacts(id=each.id, method=each.method, path=each.path, roles=each.roles)
        for each in operations
    }
