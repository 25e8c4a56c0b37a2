"""The files in deploy/ say what the program understands. tests/api/http runs the proxies with theirs."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from interlock.service.settings import settings_from

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_compose_file_sets_what_are_settings_and_fits_the_proxys_file() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    environ = services["interlock"]["environment"]
    settings = settings_from(environ)
    assert set(environ) <= {f"INTERLOCK_{name.upper()}" for name in settings.__struct_fields__}
    assert settings.store.startswith("postgresql://interlock:interlock@database/")
    assert int(services["interlock"]["stop_grace_period"][:-1]) > settings.drain_seconds

    text = (DEPLOY / "nginx.conf").read_text()
    for before, after in re.findall(r"s/([^/]+)/([^/]+)/", services["nginx"]["command"]):
        assert before in text
        text = text.replace(before, after)
    assert "server interlock:8700;" in text
    assert "listen 8080;" in text


def test_the_proxies_limits_are_those_of_the_server() -> None:
    bytes_max = settings_from({}).body_bytes_max
    assert f"content-length) gt {bytes_max} " in (DEPLOY / "haproxy.cfg").read_text()
    assert f"client_max_body_size {bytes_max // 2**20}m;" in (DEPLOY / "nginx.conf").read_text()
