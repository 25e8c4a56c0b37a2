"""What a server tells of its settings: all of them, where each came from, and no credential."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from interlock.api.settings import report, without_credentials
from interlock.service.settings import Settings, settings_from
from interlock.store import store_for
from tests.api.conftest import durable_url
from tests.harness.in_process_api import open_api

__all__ = ["durable_url"]


def told(settings: Settings) -> dict[str, tuple[str | None, str | None, bool]]:
    return {each.name: (each.value, each.source, each.is_secret) for each in report(settings)}


def test_every_setting_is_told_with_its_meaning() -> None:
    assert [each.name for each in report(Settings())] == list(Settings.__struct_fields__)
    assert all(each.meaning for each in report(Settings()))


def test_each_setting_says_where_it_came_from(tmp_path: Path) -> None:
    file = tmp_path / "interlock.toml"
    file.write_text("batch_max = 10\nport = 1\nrelay = false\n")
    found = told(
        settings_from({"INTERLOCK_PORT": "2", "INTERLOCK_HOST": "::1"}, config=str(file), host="::2")
    )
    assert found["host"] == ("::2", "flag", False)
    assert found["port"] == ("2", "environment", False)
    assert found["batch_max"] == ("10", "file", False)
    assert found["relay"] == ("false", "file", False)
    assert found["lanes"] == ("2", "default", False)
    assert told(Settings())["lanes"] == ("2", None, False)


def test_a_worker_tells_of_the_whole_server() -> None:
    read = settings_from({"INTERLOCK_WORKERS": "4"}, store="postgresql://db/x", policy="p.yaml")
    worker = msgspec.structs.replace(read, workers=1, policy="")
    assert told(worker)["workers"] == ("4", "environment", False)
    assert told(worker)["policy"] == ("p.yaml", "flag", False)


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("secret", "hunter2", None),
        ("oidc_client_secret", "hunter2", None),
        ("smtp_password", "hunter2", None),
        ("api_key", "hunter2", None),
        ("nats_url", "nats://user:hunter2@broker:4222", "nats://***@broker:4222"),
        ("nats_url", "nats://hunter2@broker", "nats://***@broker"),
        ("nats_url", "nats://a:hunter2@one,nats://b:hunter2@two", "nats://***@two"),
        ("store", "postgresql://il:hunter2@db/interlock", "postgresql://***@db/interlock"),
        ("store", "postgresql://il:hun/ter2@hunter2@db/x", "postgresql://***@db/x"),
        ("store", "postgresql://db/x?user=il&password=hunter2", "postgresql://db/x?***"),
        ("store", "postgresql://db/x?password=hu@nter2", "postgresql://***"),
        ("store", "postgresql://il:hu?nter2@db/x", "postgresql://***"),
        ("providers", '[{"client_secret": "hunter2"}]', None),
    ],
)
def test_no_credential_is_told(name: str, text: str, shown: str | None) -> None:
    assert without_credentials(name, text) == (shown, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("tls_key", "/etc/key.pem"),
        ("store", "sqlite:////srv/a@b?c.db"),
        ("store", "postgresql://db:5432/interlock"),
        ("store", "postgresql://interlock@db/interlock"),
        ("nats_url", "nats://broker:4222"),
        ("host", "127.0.0.1"),
    ],
)
def test_what_is_no_credential_is_told(name: str, text: str) -> None:
    assert without_credentials(name, text) == (text, False)


def test_a_secret_that_is_not_set_is_told_as_that() -> None:
    assert without_credentials("secret", "") == ("", True)


async def test_operators_of_the_server_read_its_settings(durable_url: str) -> None:
    async with open_api(store_for(durable_url), secret="hunter2" * 5) as api:
        api.service.settings = msgspec.structs.replace(api.service.settings, store=durable_url)
        found = await api.get("settings", await api.person("oda", "operate"))

        kind = "sqlite" if durable_url.startswith("sqlite") else "postgresql"
        assert found["store_kind"] == kind
        assert found["store_place"]
        assert found["started_at"].endswith("Z")
        assert [each["name"] for each in found["settings"]] == list(Settings.__struct_fields__)
        (secret,) = [each for each in found["settings"] if each["name"] == "secret"]
        assert (secret["value"], secret["secret"], secret["source"]) == (None, True, "flag")
        assert "hunter2" not in str(found)
        reviewer = await api.call("GET", "settings", await api.person("rea", "review,audit,submit"))
        assert reviewer.word == "forbidden"
        stranger = await api.person("ann", "admin", tenant="elsewhere")
        assert (await api.call("GET", "settings", stranger)).word == "forbidden"
