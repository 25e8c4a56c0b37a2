"""One server to be mistreated."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interlock.rooms.identity.model import PrincipalKind, Role
from interlock.service.operator import issue_key
from tests.harness.server import InterlockServer
from tests.races.deployment import ASK, in_thread, read_store


class Victim:
    """A server on a SQLite file and a key with every role."""

    def __init__(self, server: InterlockServer, key: str) -> None:
        self.server = server
        self.url = server.url
        self.headers = {"Authorization": f"Bearer {key}"}


@pytest.fixture(scope="session")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    """A running server with a policy in force."""
    folder = tmp_path_factory.mktemp("fuzz")
    policy = folder / "policy.yaml"
    policy.write_text(ASK)
    store = f"sqlite:///{folder / 'interlock.db'}"
    server = InterlockServer(store, policy=policy)
    try:
        server.start()
        yield Victim(server, in_thread(_every_role(store)))
    finally:
        server.close()


async def _every_role(store: str) -> str:
    made = await read_store(
        store, lambda service: issue_key(service, "fuzz", kind=PrincipalKind.PERSON, roles=tuple(Role))
    )
    return made.key
