"""The systemd unit: systemd understands it, rates it safe, and the server runs under its limits."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from interlock import Interlock
from interlock.cli.exits import Exit
from interlock.service.settings import Settings, settings_from
from tests.harness.container import Container, Image
from tests.harness.processes import pick_port
from tests.harness.systemd_unit import UNIT, analyze, confined, libraries, settings

# Of 100; a unit that forbids nothing has 96. What is left is that a server uses the network.
EXPOSURE_MAX = 15
POLICY = "version: v1\nrules:\n  - {id: small, when: {topic: t}, if: 'payload.n < 2', decision: allow}\n"


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    # The program is not installed where the unit has it.
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text().replace(settings()["ExecStart"][0], "/bin/sh"))
    said = analyze("verify", "--recursive-errors=no", "--man=no", str(here))
    assert (said.returncode, said.stderr) == (0, "")
    # A line that systemd would skip, which it says and then goes on, is found.
    here.write_text(here.read_text().replace("NoNewPrivileges=yes", "NoNewPrivilege=yes"))
    assert "NoNewPrivilege" in analyze("verify", "--recursive-errors=no", "--man=no", str(here)).stderr


def test_systemd_rates_its_exposure_low() -> None:
    words = ("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}")
    said = analyze(*words, str(UNIT))
    assert said.returncode == 0, said.stdout + said.stderr


def test_a_threshold_that_it_misses_would_be_noticed(tmp_path: Path) -> None:
    open_unit = tmp_path / UNIT.name
    open_unit.write_text(UNIT.read_text().replace("DynamicUser=yes\n", "").replace("SystemCallFilter", "#"))
    words = ("security", "--offline=true", "--no-pager", f"--threshold={EXPOSURE_MAX}")
    assert analyze(*words, str(open_unit)).returncode != 0


def test_it_waits_longer_than_the_server_drains_and_leaves_a_bad_setting_alone() -> None:
    unit = settings()
    assert int(unit["TimeoutStopSec"][0].removesuffix("s")) > settings_from({}).drain_seconds
    assert unit["RestartPreventExitStatus"] == [str(int(Exit.USAGE))]


def test_what_it_sets_are_settings() -> None:
    names = {line.split("=")[0] for line in settings()["Environment"]}
    assert names <= {
        "INTERLOCK_CONFIG",
        *(f"INTERLOCK_{name.upper()}" for name in Settings.__struct_fields__),
    }


def test_its_command_runs_under_its_limits_and_ends_well_when_it_is_stopped(image: Image) -> None:
    config = image.data / "etc.toml"
    config.write_text("# Every setting has its default.\n")
    started = settings()["ExecStart"][0].split()
    program = Path(image.run_env({})["PATH"].split(":")[0]) / Path(started[0]).name
    env = {
        "INTERLOCK_CONFIG": str(config),
        "INTERLOCK_HOST": "127.0.0.1",
        "INTERLOCK_PORT": str(pick_port()),
        **libraries(),
    }
    server = Container(image, confined([str(program), *started[1:]]), entry_point=(), **env)
    try:
        server.until_healthy()
        (key,) = re.findall(r"^admin key: (\S+)", server.log(), re.MULTILINE)
        with Interlock(f"http://127.0.0.1:{env['INTERLOCK_PORT']}", key=key) as admin:
            admin.apply_policy(POLICY)
            assert admin.simulate_policy(POLICY).examined == 0  # in a process of its own
            assert admin.submit("t", {"n": 1}).state == "PENDING"  # allowed, for a worker to take
        assert server.stop() == 0
    finally:
        server.close()
        config.unlink()
        shutil.rmtree(image.data / ".interlock", ignore_errors=True)
