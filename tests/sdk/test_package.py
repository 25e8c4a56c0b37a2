"""What `import interlock` costs and offers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import interlock


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_but_typing() -> None:
    assert loaded_by("import interlock") - loaded_by("import typing") <= {"interlock", "__future__"}


def test_the_client_loads_neither_the_server_nor_the_http_library() -> None:
    loaded = loaded_by("from interlock import Interlock")
    assert not {
        name for name in loaded if name.split(".")[0] in ("httpx2", "asyncio", "apsw", "cryptography")
    }
    shared = (
        "interlock.kernel",
        "interlock.kernel.codec",
        "interlock.kernel.hold",
        "interlock.kernel.refusal",
    )
    assert not {
        name
        for name in loaded
        if name.startswith(("interlock.api", "interlock.kernel", "interlock.store"))
        and name not in shared
        and not name.startswith("interlock.kernel.codec.")
    }


@pytest.mark.parametrize("name", dir(interlock))
def test_every_offered_name_can_be_had(name: str) -> None:
    assert (
        getattr(interlock, name).__module__.startswith(
            ("interlock.sdk.", "interlock.wire.", "interlock.rooms.permits.")
        )
        or name == "NO_RETRIES"
    )


def test_a_wrong_name_is_an_attribute_error_that_lists_the_right_ones() -> None:
    with pytest.raises(AttributeError, match="AsyncInterlock"):
        interlock.Intrelock  # noqa: B018


def test_a_star_import_brings_what_is_offered() -> None:
    names: dict[str, object] = {}
    exec("from interlock import *", names)
    assert set(dir(interlock)) <= names.keys()


def test_the_version_is_the_one_that_was_installed() -> None:
    from importlib.metadata import version

    assert interlock.__version__ == version("interlock")
