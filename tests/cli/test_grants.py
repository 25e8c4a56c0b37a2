"""`interlock grant`, `grants`, `revoke` and `signer`: permissions from a terminal, signed where it must be."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from tests.cli.terminal import Terminal
from tests.harness.server import InterlockServer, clean_env

OPENSSH = (Encoding.PEM, PrivateFormat.OpenSSH)
PKCS8 = (Encoding.PEM, PrivateFormat.PKCS8)


@pytest.fixture
def key(terminal: Terminal) -> Ed25519PrivateKey:
    """A key pair in the folder: `id` in OpenSSH's form and `id.pub`; registered for whoever sits there."""
    made = Ed25519PrivateKey.generate()
    terminal.file("id", made.private_bytes(*OPENSSH, NoEncryption()).decode())
    terminal.file("id.pub", made.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
    assert terminal("signer", "add", "id.pub").code == 0
    return made


def test_a_grant_is_issued_listed_shown_and_revoked(terminal: Terminal) -> None:
    grant = terminal(
        "grant", "refund", "--pin", "cents<=500", "--pin", "repo=billing", "--uses", "3", "--json"
    ).json
    assert grant["pins"] == {"cents": {"max": 500}, "repo": "billing"}
    listed = terminal("grants", "--state", "open")
    assert grant["id"] in listed.out
    assert "cents<=500" in terminal("grant", grant["id"]).out
    assert terminal("revoke", grant["id"]).code == 0
    assert terminal("grants", "--state", "open", "--json").json["items"] == []


def test_a_listing_that_goes_on_stays_narrowed(terminal: Terminal) -> None:
    for _ in range(2):
        terminal("grant", "refund")
    said = terminal("grants", "--task", "refund", "--state", "open", "--limit", "1")
    assert "interlock grants --task refund --state open --limit 1 --cursor gnt_" in said.out


@pytest.mark.parametrize("pin", ["cents", "<=5", "cents<=many", "=x"])
def test_a_pin_that_is_none_is_a_usage_error(terminal: Terminal, pin: str) -> None:
    assert terminal("grant", "refund", "--pin", pin).code == 2


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("9007199254740993", "write it as a string, in double quotes: '\"9007199254740993\"'"),
        ("1e400", "in double quotes"),
        ("0.10000000000000000001", "in double quotes"),
        ('{"a": 1, "a": 2}', "duplicate key 'a'"),
        ('[{"b": 12345678901234567890}]', "/0/b: whole number outside"),
        ('"\\ud800"', "half of a surrogate pair"),
        ("[" * 5000 + "]" * 5000, "nested deeper than 64"),
    ],
)
def test_json_that_cannot_be_kept_is_no_pin_on_its_text(terminal: Terminal, value: str, said: str) -> None:
    terminal("init", "--bare")
    ended = terminal("grant", "refund", "--pin", f"a={value}")
    assert (ended.code, said in ended.err) == (2, True), ended.err
    assert terminal("grants", "--json").json["items"] == []


@pytest.mark.parametrize(
    ("value", "pinned"),
    [
        ('"9007199254740993"', "9007199254740993"),
        ("9007199254740991", 9007199254740991),
        ("9007199254740993 apples", "9007199254740993 apples"),
        ("NaN", "NaN"),
        ("v1.0", "v1.0"),
        ("[draft] fix", "[draft] fix"),
        ("007", "007"),
    ],
)
def test_a_pin_on_a_text_needs_no_quotes_unless_it_is_json(
    terminal: Terminal, value: str, pinned: object
) -> None:
    assert terminal("grant", "refund", "--pin", f"a={value}", "--json").json["pins"] == {"a": pinned}


def test_a_grant_is_signed_here_and_its_key_goes_nowhere(terminal: Terminal, key: Ed25519PrivateKey) -> None:
    terminal("signer", "require", "*")
    assert terminal("grant", "deploy").code == 1

    signed = terminal(
        "grant", "deploy", "--sign-with", "id", "--uses", "2", "--limit", "cents<=9", "--json"
    ).json

    assert signed["signed_by"] == terminal("signers", "--json").json["items"][0]["fingerprint"]
    stored = (terminal.folder / ".interlock" / "interlock.db").read_bytes()
    assert key.private_bytes_raw() not in stored


@pytest.mark.parametrize("form", [OPENSSH, PKCS8], ids=["openssh", "pkcs8"])
def test_a_key_with_a_passphrase_asks_for_it(
    terminal: Terminal,
    key: Ed25519PrivateKey,
    form: tuple[Encoding, PrivateFormat],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal.file("locked", key.private_bytes(*form, BestAvailableEncryption(b"open sesame")).decode())
    monkeypatch.setattr("getpass.getpass", lambda _: "open sesame")
    assert terminal("grant", "deploy", "--sign-with", "locked").code == 0
    monkeypatch.setattr("getpass.getpass", lambda _: "wrong")
    assert terminal("grant", "deploy", "--sign-with", "locked").code == 2


def test_a_key_with_a_passphrase_is_asked_for_at_a_terminal_or_not_at_all(
    terminal: Terminal, key: Ed25519PrivateKey
) -> None:
    terminal.file("locked", key.private_bytes(*OPENSSH, BestAvailableEncryption(b"open sesame")).decode())
    words = [sys.executable, "-m", "interlock.cli.main", "grant", "deploy", "--sign-with", "locked"]
    ended = subprocess.run(
        words, cwd=terminal.folder, env=clean_env(), input="open sesame\n", capture_output=True, text=True,
        start_new_session=True, timeout=120,
    )  # fmt: skip
    assert (ended.returncode, "there is no terminal" in ended.stderr) == (2, True), ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("ssh-ed25519 AAAA ada", "that is a public key; sign with the private one"),
        ("", "that is no OpenSSH or PEM private key"),
    ],
)
def test_what_is_no_private_key_is_called_what_it_is(terminal: Terminal, content: str, told: str) -> None:
    said = terminal("grant", "deploy", "--sign-with", terminal.file("given", content))
    assert (said.code, told in said.err) == (2, True), said.err


def test_what_is_signed_is_told_as_it_was_signed(terminal: Terminal, key: Ed25519PrivateKey) -> None:
    said = terminal("grant", "deploy", "--sign-with", "id", "--uses", "2")
    assert said.err.startswith("signed deploy as gnt_")
    assert "2 in all, until 20" in said.err


def test_a_bad_pin_of_a_signed_grant_is_a_usage_error(terminal: Terminal, key: Ed25519PrivateKey) -> None:
    said = terminal("grant", "deploy", "--sign-with", "id", "--pin", "a..b=1")
    assert (said.code, "'a..b' is not a path" in said.err) == (2, True)


def test_a_private_key_given_as_a_signers_is_sent_nowhere(
    terminal: Terminal, key: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[object] = []
    monkeypatch.setattr("interlock.sdk.client.Interlock.add_signer", lambda *said, **_: sent.append(said))
    for words in ("id", (terminal.folder / "id").read_text(), "missing.pub", "no key"):
        said = terminal("signer", "add", words)
        assert said.code == 2, said.err
        assert "BEGIN" not in said.err
    assert sent == []


def test_a_signers_file_that_is_not_there_is_told_so(terminal: Terminal) -> None:
    for name in ("missing", "missing.pub"):
        said = terminal("signer", "add", name)
        assert (said.code, "there is no" in said.err) == (2, True), said.err


def test_a_task_that_no_longer_needs_a_signature_is_named(terminal: Terminal) -> None:
    assert terminal("signer", "require", "deploy,prod.*").out == "signed grants only: deploy, prod.*\n"
    assert terminal("signer", "require", "prod.*").out == "signed grants only: prod.*\nno longer: deploy\n"


def test_a_revoked_key_signs_nothing_more(terminal: Terminal, key: Ed25519PrivateKey) -> None:
    fingerprint = terminal("signers", "--json").json["items"][0]["fingerprint"]
    assert terminal("signer", "revoke", fingerprint).code == 0
    said = terminal("grant", "deploy", "--sign-with", "id", "--json")
    assert (said.code, said.problem["code"]) == (1, "bad_signature")


def test_doctor_says_when_uses_do_not_add_up(policy_terminal: Terminal) -> None:
    grant = policy_terminal("grant", "deploy", "--uses", "2", "--json").json
    assert "2 uses issued: 2 open" in policy_terminal("doctor").out
    database = apsw.Connection(str(policy_terminal.folder / ".interlock" / "interlock.db"))
    body = json.loads(next(iter(database.execute("SELECT body FROM grants")))[0])
    database.execute("UPDATE grants SET body = ?", (json.dumps({**body, "used": 1}),))
    database.close()

    said = policy_terminal("doctor")

    assert said.code == 1
    assert f"the records of {grant['id']} do not add up" in said.out


def test_doctor_looks_at_every_grant_or_says_that_it_did_not(
    policy_terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        policy_terminal("grant", "deploy")
    monkeypatch.setattr("interlock.cli.checks._PAGE", 1)
    assert "3 uses issued: 3 open" in policy_terminal("doctor").out
    monkeypatch.setattr("interlock.cli.checks._PAGES_MAX", 2)
    assert "2 uses of the newest 2 grants issued: 2 open" in policy_terminal("doctor").out


@pytest.fixture
def shifted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that moves the clock of any Python started with it on its path, by SHIFT_SECONDS."""
    folder = tmp_path_factory.mktemp("shifted")
    (folder / "sitecustomize.py").write_text(
        "import ctypes, datetime, gc, os, time\n"
        "shift = float(os.environ['SHIFT_SECONDS'])\n"
        "real_time, real_now = time.time, datetime.datetime.now\n"
        "def now(cls, tz=None):\n"
        "    return real_now(tz) + datetime.timedelta(seconds=shift)\n"
        "time.time = lambda: real_time() + shift\n"
        "gc.get_referents(datetime.datetime.__dict__)[0]['now'] = classmethod(now)\n"
        "ctypes.pythonapi.PyType_Modified(ctypes.py_object(datetime.datetime))\n"
    )
    return folder


@pytest.mark.parametrize("shift", [-3600, 3600])
def test_a_clients_clock_changes_nothing(
    terminal: Terminal, shifted: Path, shift: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    store = f"sqlite:///{tmp_path_factory.mktemp('server')}/interlock.db"
    pen = Ed25519PrivateKey.generate()
    terminal.file("id", pen.private_bytes(*OPENSSH, NoEncryption()).decode())
    terminal.file("id.pub", pen.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode())
    terminal.file(
        "interlock.yaml", "tasks: {mark: {command: [sh, -c, 'echo ran >> marks'], approval: {signed: true}}}"
    )
    server = InterlockServer(store).start()
    try:
        ada = server.create_key("ada", roles="review,admin,submit")
        where = {"INTERLOCK_URL": server.url, "INTERLOCK_KEY": ada.key}
        env = clean_env({**where, "PYTHONPATH": str(shifted), "SHIFT_SECONDS": str(shift)})
        assert terminal("signer", "add", "id.pub", "--url", server.url, "--api-key", ada.key).code == 0

        assert abs(_clock(env) - time.time() - shift) < 1800

        issued = _run(terminal, env, "grant", "mark", "--sign-with", "id", "--expires-in", "10m", "--json")
        ran = _run(terminal, env, "exec", "mark")

        assert issued.returncode == 0, issued.stderr
        ends = datetime.fromisoformat(json.loads(issued.stdout)["expires_at"])
        assert timedelta(minutes=5) < ends - datetime.now(UTC) <= timedelta(minutes=10)
        assert ran.returncode == 0, ran.stderr
        assert (terminal.folder / "marks").read_text() == "ran\n"
    finally:
        server.close()


def _run(terminal: Terminal, env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "interlock.cli.main", *words],
        cwd=terminal.folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def _clock(env: dict[str, str]) -> float:
    """What time it is for whoever runs with this environment."""
    code = "from datetime import *; print(datetime.now(UTC).timestamp())"
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return float(told.stdout)
