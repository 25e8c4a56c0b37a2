"""What the page shows for containers, systemd and Kubernetes is run as far as it can be without an engine or a cluster.

Each line is one of the few forms that are known here, and is run or checked in the way of its form; another one fails.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from interlock.service.settings import settings_from
from tests.harness.container import ROOT, Container, Image
from tests.harness.helm_chart import HAS_HELM, Json, manifests
from tests.harness.processes import pick_port
from tests.harness.systemd_unit import settings as unit_settings

PAGE = (ROOT / "docs/howto/run-a-server.md").read_text()
COMPOSE_FILE = "deploy/compose.yaml"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shown(beginning: str) -> list[str]:
    """The lines of the blocks of which one line begins so, without comments."""
    plain = [block for language, block in _BLOCK.findall(PAGE) if not language]
    blocks = [block for block in plain if re.search(rf"^{beginning}", block, re.MULTILINE)]
    lines = [re.sub(r"\s{2,}#.*$", "", line) for block in blocks for line in block.splitlines()]
    assert lines, f"no block of the page shows {beginning}"
    return lines


def shell(line: str, folder: Path) -> None:
    """Run a line as it is shown."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "INTERLOCK_"))}
    said = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", line], cwd=folder, env=env, capture_output=True, text=True
    )
    assert said.returncode == 0, f"{line}\n{said.stdout}\n{said.stderr}"


@pytest.fixture
def volume(image: Image) -> Iterator[Image]:
    """The image with an empty volume, and again after the test."""
    yield image
    for left in image.data.iterdir():
        shutil.rmtree(left)


def test_the_commands_for_docker_start_a_server_that_its_commands_reach(volume: Image) -> None:
    here = {"INTERLOCK_HOST": "127.0.0.1", "INTERLOCK_PORT": str(pick_port())}
    running: Container | None = None
    try:
        for line in shown("docker build"):
            words = shlex.split(line)
            if words[1] == "build":
                assert words[2:] == ["-f", "Containerfile", "-t", "interlock", "."]
            elif words[1:3] == ["run", "--detach"]:
                assert {"--read-only", "interlock:/data"} <= set(words)
                assert int(words[words.index("--stop-timeout") + 1]) > settings_from({}).drain_seconds
                published = words[words.index("--publish") + 1]
                assert published.endswith(f":{volume.last('EXPOSE')}")
                assert words[-1] == "interlock"
                running = Container(volume, **here).until_healthy()
            elif words[1] == "run":
                assert words[2:5] == ["--rm", "--volume", "interlock:/data"]
                assert "ann" in volume.run(words[6:]).stdout
            elif words[1] == "exec":
                said = volume.exec(words[3:])
                assert said.returncode == 0, said.stderr
            elif words[1] == "logs":
                assert running
                assert "admin key: " in running.log()
            else:
                assert words == ["docker", "stop", "interlock"]
                assert running
                assert running.stop() == 0
    finally:
        if running:
            running.close()


def test_the_commands_for_compose_make_its_secrets_and_name_its_services(
    image: Image, tmp_path: Path
) -> None:
    (tmp_path / "deploy").mkdir()
    compose = yaml.safe_load((ROOT / COMPOSE_FILE).read_text())
    for line in shown("docker compose"):
        if line.startswith("printf"):
            shell(line, tmp_path)
            continue
        words = shlex.split(line)
        assert words[:4] == ["docker", "compose", "-f", COMPOSE_FILE]
        if words[4] == "exec":
            assert words[5] in compose["services"]
            name, *rest = words[6:]
            assert [name] == image.words("ENTRYPOINT")
            assert image.run([*rest[:2], "--help"]).returncode == 0
        elif words[4] != "up":
            assert words[4] in {"logs", "stop"}
            assert set(words[5:]) <= set(compose["services"])
    made = dict(line.split("=", 1) for line in (tmp_path / "deploy/.env").read_text().splitlines())
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / COMPOSE_FILE).read_text()))
    assert set(made) == asked
    assert all(len(value) > 20 for value in made.values())
    assert "deploy/.env" in (ROOT / ".gitignore").read_text().split()


def test_the_commands_for_systemd_install_what_the_unit_starts(tmp_path: Path) -> None:
    top, clone = tmp_path / "root", tmp_path / "clone"
    clone.mkdir()
    for name in ("src", "requirements", "deploy"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, clone)
    for line in shown("systemctl"):
        if not line.startswith(("systemctl", "journalctl")):
            here = line.replace("python3 ", f"{sys.executable} ").replace(" /dev/stdin", " @stdin")
            here = re.sub(r"(?<![\w.])/(opt|etc)/", rf"{top}/\1/", here).replace(" @stdin", " /dev/stdin")
            (top / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
            shell(here, clone)
    unit = unit_settings()
    program = top / unit["ExecStart"][0].split()[0].lstrip("/")
    said = subprocess.run([program, "version"], capture_output=True, text=True)
    assert (said.returncode, said.stdout.split()[0]) == (0, "interlock")
    config = unit["Environment"][0].removeprefix("INTERLOCK_CONFIG=")
    assert settings_from({}, config=str(top / config.lstrip("/"))).port == 8700
    secrets = top / unit["EnvironmentFile"][0].lstrip("-/")
    assert secrets.stat().st_mode & 0o777 == 0o600
    assert re.fullmatch(r"INTERLOCK_SECRET=\S{40,}\n", secrets.read_text())
    assert (top / "etc/systemd/system/interlock.service").is_file()


@pytest.mark.skipif(not HAS_HELM, reason="Helm's library is not made for this system")
def test_the_commands_for_helm_render_and_find_the_secrets_that_they_make() -> None:
    secrets: dict[str, str] = {}
    made: list[dict[str, Json]] = []
    for line in [
        *dict.fromkeys(shown("helm install") + shown("kubectl")),
        *re.findall(r"`(--set [^`]+)`", PAGE),
    ]:
        words = shlex.split(line)
        if words[0] == "kubectl":
            assert words[:4] == ["kubectl", "create", "secret", "generic"]
            secrets[words[4]] = words[5].removeprefix("--from-literal=").split("=")[0]
            continue
        if words[0] == "helm":
            assert words[:4] == ["helm", "install", "interlock", "deploy/helm/interlock"]
        given = [word for before, word in itertools.pairwise(words) if before == "--set"]
        made.append(manifests(words=",".join(given)))
    assert [each["Deployment"]["spec"]["replicas"] for each in made] == [1, 2, 1]
    (container,) = made[1]["Deployment"]["spec"]["template"]["spec"]["containers"]
    asked = [each["valueFrom"]["secretKeyRef"] for each in container["env"] if "valueFrom" in each]
    assert {each["name"]: each["key"] for each in asked} == secrets
