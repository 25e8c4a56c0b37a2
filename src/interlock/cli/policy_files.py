"""Reads policy files from disk, with errors that name file, line and column as compilers do."""

from __future__ import annotations

from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from interlock.cli.exits import Exit, Failed
from interlock.cli.options import wants_json
from interlock.cli.output import counted, painted, safe, say, say_json, warn
from interlock.cli.values import read_bytes

if TYPE_CHECKING:
    from interlock.kernel.codec.located import LocatedFault
    from interlock.rooms.policy.cases import Case, CaseResult
    from interlock.rooms.policy.language import PolicyDocument
    from interlock.rooms.policy.parser import CheckedPolicy


def read_text(path: str) -> str:
    """The text of a file; `-` is stdin."""
    try:
        return read_bytes(path).decode()
    except ArgumentTypeError as error:
        raise Failed(f"{error}; check the path", Exit.USAGE, name="unreadable") from None
    except UnicodeDecodeError:
        raise Failed(f"{path} is not UTF-8 text", name="unreadable") from None


def read_policy(path: str) -> tuple[str, PolicyDocument]:
    """The text and the policy in it."""
    text, checked = check_policy_file(path)
    return text, checked.document


def check_policy_file(path: str) -> tuple[str, CheckedPolicy]:
    """The text, and the policy in it with its warnings."""
    from interlock.kernel.codec.located import SourceInvalid
    from interlock.rooms.policy.parser import check_policy

    text = read_text(path)
    try:
        return text, check_policy(text)
    except SourceInvalid as invalid:
        raise refused(path, invalid.errors, "policy") from invalid


def refused(path: str, errors: Iterable[LocatedFault], what: str) -> Failed:
    """The end of a command that was given this file."""
    found = tuple(errors)
    lines = [f"{path} is not a {what} ({counted(len(found), 'error')}):"]
    lines += [f"{path}:{safe(str(error))}" for error in found]
    problem = {"file": path, "errors": located(found)}
    return Failed("\n  ".join(lines), name="invalid_policy", problem=problem)


def located(found: Iterable[LocatedFault]) -> list[dict[str, object]]:
    """Errors or warnings as the API spells them."""
    return [
        {"path": each.path, "reason": each.message, "line": each.line, "column": each.column}
        for each in found
    ]


def warn_of(path: str, warnings: Iterable[LocatedFault]) -> None:
    """Print what is allowed in a policy but may not be meant, on stderr."""
    for each in warnings:
        warn(f"warning: {path}:{each}")


def tested(args: Namespace) -> int:
    """Ask the policy about each case; fail if any is decided otherwise than expected."""
    from interlock.rooms.policy.cases import run_cases
    from interlock.rooms.policy.evaluation import compile_policy

    cases = _cases(args.file)
    document = read_policy(args.policy)[1] if args.policy else _in_force(args)
    results = run_cases(compile_policy(document), cases)
    if wants_json(args):
        say_json(_summary(results))
    else:
        for result in results:
            _say_result(args.file, result)
        _say_count(results)
    return Exit.DONE if all(result.outcome == "passed" for result in results) else Exit.ERROR


def _cases(path: str) -> tuple[Case, ...]:
    from interlock.kernel.codec.located import SourceInvalid
    from interlock.rooms.policy.cases import parse_cases

    try:
        return parse_cases(read_text(path))
    except SourceInvalid as invalid:
        raise refused(path, invalid.errors, "file of cases") from invalid


def _in_force(args: Namespace) -> PolicyDocument:
    from msgspec.json import encode

    from interlock.cli.connection import connected
    from interlock.rooms.policy.parser import parse_policy

    with connected(args) as client:
        policy = client.get_policy()
    return parse_policy(encode(policy.document), syntax="json")


def _say_result(path: str, result: CaseResult) -> None:
    name = safe(result.case.name)
    if result.outcome == "passed":
        say(f"{painted('✓', 'green')} {name}")
        _say_failure(result)
        return
    say(f"{painted('✗', 'red')} {name}  {painted(f'{path}:{result.case.line}', 'dim')}")
    say(*(f"    {safe(difference)}" for difference in result.differences))
    _say_failure(result)
    for missed in result.evaluation.trail if result.evaluation else ():
        say(painted(f"    {safe(missed.rule)} did not match: {safe(missed.why)}", "dim"))


def _say_failure(result: CaseResult) -> None:
    """Say where a rule could not be asked: also a case that expects a denial may expect it for another reason."""
    said = result.evaluation
    if said is not None and said.failure is not None:
        say(
            painted(
                f"    denied because rule {safe(said.rule or '')} failed: {safe(said.failure.why)}", "yellow"
            )
        )


def _say_count(results: Sequence[CaseResult]) -> None:
    passed = sum(result.outcome == "passed" for result in results)
    broken = len(results) - passed
    verdict = painted(f"{broken} failed", "red") if broken else painted("all as expected", "green")
    say("", f"{counted(len(results), 'case')}: {passed} passed, {verdict}")


def _failure_of(result: CaseResult) -> dict[str, object] | None:
    from msgspec.structs import asdict

    failure = result.evaluation.failure if result.evaluation else None
    return asdict(failure) if failure else None


def _summary(results: Sequence[CaseResult]) -> dict[str, object]:
    return {
        "passed": sum(result.outcome == "passed" for result in results),
        "failed": sum(result.outcome == "failed" for result in results),
        "errors": sum(result.outcome == "error" for result in results),
        "cases": [
            {
                "name": result.case.name,
                "line": result.case.line,
                "outcome": result.outcome,
                "differences": list(result.differences),
                "failure": _failure_of(result),
            }
            for result in results
        ],
    }
