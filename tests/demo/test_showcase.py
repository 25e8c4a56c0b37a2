"""`interlock demo --open` stays with a day's worth of data, lets one sign in, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2

LINK = re.compile(r"(http://127\.0\.0\.1:\d+)(/console/sign-in\?link=(\S+))")


def test_the_demo_stays_open_until_it_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "interlock", "demo", "--open"]
    env = {"TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        found = next(found for line in demo.stdout if (found := LINK.search(line)))
        url, _, link = found.groups()
        with httpx2.Client(base_url=url, headers={"origin": url}, timeout=30) as http:
            assert http.post("/console/sign-in", data={"link": link}).status_code == 303
            inbox = http.get("/console/inbox").text
        assert "Pays 250.00 EUR to Acme in production" in inbox
        demo.send_signal(signal.SIGINT)
        assert demo.wait(60) == 0
    assert list(tmp_path.iterdir()) == []
