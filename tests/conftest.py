"""Fixtures every test may use, and one profile for property-based tests."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from interlock.kernel import pages
from tests.harness import installation
from tests.harness.postgres import PostgresServer
from tests.harness.postgres_proxy import PostgresProxy
from tests.harness.server import InterlockServer, live
from tests.harness.soak import dose

# What a developer has set for daily use must not change what a test means.
for name in [name for name in os.environ if name.startswith("INTERLOCK_")]:
    if name not in {"INTERLOCK_SOAK", "INTERLOCK_TEST_POSTGRES"}:
        del os.environ[name]

# msgspec, having described many types, may crash in the interpreter's last collection: leave it nothing to do.
atexit.register(gc.freeze)

settings.register_profile(
    "interlock",
    # The same examples on every machine: a red run can be repeated. A soak widens the search instead.
    derandomize=dose(1) == 1,
    max_examples=dose(100),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("interlock")


@pytest.fixture(scope="session", autouse=True)
def _compile_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Servers and commands that tests start compile no module twice, whatever the environment says.

    There are hundreds of them, and compiling is more than half of what each costs to start.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(tmp_path_factory.mktemp("pycache"))


@pytest.fixture(autouse=True)
def _forget_broken_records() -> None:
    """A process counts the broken records that it met; each test meets its own."""
    pages._report.cache_clear()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The run's shared PostgreSQL. A test that pauses, stops or kills one takes `private_postgres`."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def private_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of the test's own, to be paused, killed and restarted."""
    server = PostgresServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on the shared PostgreSQL."""
    url = postgres.create_database()
    yield url
    postgres.drop(url)


@pytest.fixture
def postgres_proxy(postgres_url: str) -> Iterator[PostgresProxy]:
    """A proxy before an empty database on the shared PostgreSQL; clients use its `url`."""
    proxy = PostgresProxy(postgres_url).start()
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this source tree."""
    return installation.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> installation.Installation:
    """An environment with the wheel, what it declares, and pip. No test changes it."""
    return installation.install(wheel, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'interlock.db'}"


@pytest.fixture
def serve() -> Iterator[Callable[..., InterlockServer]]:
    """Starts Interlock servers, `serve(store_url, policy=…, env=…)`, and ends them all after the test."""
    started: list[InterlockServer] = []

    def start(store: str, **options: Any) -> InterlockServer:
        started.append(InterlockServer(store, **options))
        return started[-1].start()

    yield start
    for server in started:
        server.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the end of every running server's log beside a failure."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {server.url} on {server.store}", server.log()) for server in live]
    return report
