"""The Containerfile: what it copies, what it makes, and what runs of it as a user on a read-only file system."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.container import ROOT, Container, Image, stages
from tests.harness.processes import pick_port

CONTAINERFILE = ROOT / "Containerfile"


@pytest.fixture
def here(image: Image) -> Iterator[dict[str, str]]:
    """An empty volume, and what makes a container listen on this machine alone."""
    yield {"INTERLOCK_HOST": "127.0.0.1", "INTERLOCK_PORT": str(pick_port())}
    for left in image.data.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def test_the_containerfile_has_no_flaw_that_hadolint_knows() -> None:
    command = [Path(sys.executable).parent / "hadolint", "--failure-threshold", "style", CONTAINERFILE]
    said = subprocess.run(command, capture_output=True, text=True)
    assert said.returncode == 0, said.stdout + said.stderr


def test_the_build_is_given_what_it_copies_and_nothing_else() -> None:
    copied = {
        source
        for stage in stages(CONTAINERFILE.read_text())
        for each in stage
        if each.name == "COPY" and not each.text.startswith("--from=")
        for source in each.text.split()[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    first, *others = [line for line in lines if not line.startswith("#")]
    assert first == "*"
    assert {line[1:] for line in others if line.startswith("!")} == copied


def test_every_package_is_installed_by_its_hash() -> None:
    installs = [
        words
        for stage in stages(CONTAINERFILE.read_text())
        for each in stage
        if each.name == "RUN"
        for words in re.findall(r"pip [^&]*install[^&]*", each.text)
    ]
    assert installs
    assert [words for words in installs if "--require-hashes" not in words] == [
        words for words in installs if "--no-index" in words
    ]
    assert all("--no-deps" in words for words in installs)


def test_the_label_names_the_version(image: Image) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (labels,) = [each.pairs for each in stages(CONTAINERFILE.read_text())[-1] if each.name == "LABEL"]
    assert labels["org.opencontainers.image.version"] == project["version"]
    assert labels["org.opencontainers.image.licenses"] == project["license"]
    assert image.run(["version"]).stdout == f"interlock {project['version']}\n"


def test_the_image_listens_where_a_published_port_leads(image: Image) -> None:
    assert image.env["INTERLOCK_HOST"] == "0.0.0.0"
    assert image.last("EXPOSE") == "8700"


def test_a_program_of_the_image_is_no_root_and_can_write_nowhere_but_in_the_volume(image: Image) -> None:
    tried = "import os, sys; print(os.getuid()); print(*(os.access(path, os.W_OK) for path in sys.argv[1:]))"
    asked = ["python", "-c", tried, "/", "/tmp", "/etc", image.env["PATH"].split(":")[0], str(image.data)]
    said = image.exec(asked)
    assert said.stdout.split() == [
        image.last("USER").split(":")[0],
        "False",
        "False",
        "False",
        "False",
        "True",
    ], said


def test_a_container_becomes_healthy_serves_and_drains_when_it_is_stopped(
    image: Image, here: dict[str, str]
) -> None:
    container = Container(image, **here)
    try:
        container.until_healthy()
        assert "admin key: " in container.log()
        # `docker exec`: the same image, in the folder of the server's store.
        assert image.run(["key", "create", "ann", "--kind", "person", "--roles", "review"]).returncode == 0
        assert "takes writes" in image.run(["doctor"]).stdout
        assert container.stop() == 0
        assert image.exec(image.words("HEALTHCHECK"), **here).returncode != 0
    finally:
        container.close()


def test_what_a_container_keeps_is_in_the_volume(image: Image, here: dict[str, str]) -> None:
    assert image.run(["key", "create", "ann", "--kind", "person", "--roles", "review"]).returncode == 0
    assert "ann" in image.run(["key", "list"]).stdout
    assert [path.name for path in image.data.iterdir()] == [".interlock"]


def test_a_container_reads_a_configuration_that_is_mounted_in_its_folder(
    image: Image, here: dict[str, str]
) -> None:
    port = pick_port()
    (image.data / "interlock.toml").write_text(f'port = {port}\nstore = "sqlite:////{image.data}/own.db"\n')
    container = Container(image, INTERLOCK_HOST="127.0.0.1")
    try:
        container.until_healthy()
        assert f":{port}\n" in container.log()
        assert container.stop() == 0
    finally:
        container.close()
