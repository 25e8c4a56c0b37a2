"""Who may import whom (docs/ARCHITECTURE.md). A layer that leaks is found here, not in review."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator

from interlock.kernel.refusal import Refusal
from interlock.store.catalogue import ROOMS  # A room uses the rules of those before it.
from tests.tidy.source import Import, Module, package

SHELLS = {"api", "channels", "cli", "console", "sdk", "service", "drills", "demo"}
FOUNDATIONS = {"kernel", "store", "wire", "rooms"}
# What a room has beside its rules: it reads lists, makes keys, or meets the outside for the loops that ask it to.
NOT_RULES = {
    "identity.keys",
    "permits.verification",
    "jobs.simulation",
    "events.addresses",
    "events.signing",
}

# The outside world: files, sockets, clocks, randomness, threads, logs, and the libraries that wrap them.
WORLDLY = {
    *(
        "apsw",
        "asyncio",
        "asyncpg",
        "concurrent",
        "cyclopts",
        "http",
        "httpx2",
        "io",
        "logging",
        "multiprocessing",
    ),
    *(
        "nats",
        "os",
        "pathlib",
        "random",
        "rich",
        "secrets",
        "select",
        "selectors",
        "shutil",
        "signal",
        "socket",
    ),
    *("sqlite3", "ssl", "subprocess", "sys", "tempfile", "threading", "time", "urllib", "uuid", "uuid_utils"),
    "granian",
}
CLOCK_METHODS = {"now", "utcnow", "today"}
IO_BUILTINS = {"open", "print", "input"}
HARMLESS = {"threading.Lock"}  # guards a cache; decides nothing
# Refusals that tell the operation to ask the kernel again; no caller ever gets one.
ASKED_AGAIN = {"LookFurther", "NothingToClaim"}
STATUSES = {400, 401, 403, 404, 405, 409, 413, 415, 422, 423, 429, 503}
# What commands read by key beside the environment: what they make or read themselves, and JSON that is opaque to the
# service. Each may do so in its own module alone.
READ_BY_KEY = {
    "cli.checks": {"total"},
    "cli.connection": {"CODES"},
    "cli.doctor": {"policy.document"},
    "cli.exec": {"ended.result"},
    "cli.exec_approved": {"prepared.command.document()"},
    "cli.execution.approved": {"refused.problem.fields"},
    "cli.execution.gates": {"refused.problem.fields", "known", "result", "command.document()"},
    "cli.execution.prepared": {"approved", "current"},
    "cli.execution.tasks": {"root.entries", "document"},
    "cli.grants": {"signed", "value"},
    "cli.output": {"failed.problem"},
    "cli.policy": {"each.document"},
    "cli.touch": {"change"},
    "cli.workflows": {"cast('dict[str, Any]', read)"},
}
ENVIRONMENT = {"os.environ", "environ"}


def test_every_part_of_the_package_has_a_place_in_the_order() -> None:
    parts = {module.part for module in package()} - {""}
    assert parts <= {*ROOMS, *SHELLS, *FOUNDATIONS}


def test_commands_read_answers_by_attribute() -> None:
    read = {
        module.name.removeprefix("interlock."): set(_by_key(module)) - ENVIRONMENT
        for module in package()
        if module.part == "cli"
    }
    found = {name: expressions for name, expressions in read.items() if expressions}
    assert found == READ_BY_KEY, (
        "convert the answer with `typed(answer, Type)` of wire/ and read its attributes"
    )


def test_commands_do_not_look_into_plain_answers() -> None:
    assert not [
        f"{module.place}:{line}" for module in package() if module.part == "cli" for line in _opened(module)
    ], "convert the answer with `typed(answer, Type)` of wire/ and read its attributes"


def test_kernel_and_wire_import_nothing_of_ours() -> None:
    assert not list(_offences(_foundation_leaks))


def test_rooms_use_rules_of_rooms_above_them_only() -> None:
    assert not list(_offences(_wrong_direction))


def test_rules_import_no_store_and_no_shell() -> None:
    assert not list(_offences(_room_leaks))


def test_rules_reach_no_io_time_or_randomness() -> None:
    assert not [
        f"{' -> '.join(chain)} -> {worldly}"
        for start in package()
        if _is_pure(start)
        for chain, worldly in _worldly_chains(start)
    ]


def test_rules_ask_no_clock_and_do_no_io() -> None:
    assert not [
        f"{module.place}:{node.lineno} calls {ast.unparse(node.func)}()"
        for module in package()
        if _is_pure(module)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and _is_worldly(node.func)
    ]


def test_what_the_api_shows_goes_by_the_stores_clock() -> None:
    assert not [
        f"{module.place}:{node.lineno} asks this machine"
        for module in package()
        if module.part == "api" and module.name != "interlock.service.logs"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"datetime.now", "datetime.utcnow", "utc_now"}
    ]


def test_the_store_knows_no_rule_and_no_shell() -> None:
    assert not list(_offences(_store_leaks))


def test_shells_reach_a_store_only_through_its_contract() -> None:
    assert not list(_offences(_shell_touches_store))


def test_the_console_holds_no_rule() -> None:
    """It signs people in, and does everything else through the API, as any client."""
    shut = ("interlock.rooms", "interlock.store", "interlock.api")
    found = [
        f"{module.place}: {each.name}"
        for module in package()
        if module.part == "console"
        for each in module.imports
        if each.name.startswith(shut) and not each.name.startswith("interlock.rooms.identity.refusals")
    ]
    assert not found


def test_only_the_table_knows_the_channels() -> None:
    assert not list(_offences(_names_a_channel))


def test_only_problems_maps_refusals_to_http() -> None:
    assert not [
        f"{module.place}:{node.lineno} catches {ast.unparse(node.type)}"
        for module in package()
        if module.part == "api" and module.name != "interlock.api.problems"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ExceptHandler) and node.type and not _passes_on(node)
        if _names_in(node.type) & _refusals_of(module)
    ]


def test_nothing_below_the_shells_knows_an_http_status() -> None:
    assert not [
        f"{module.place}:{node.lineno} says {node.value}"
        for module in package()
        if module.part in {*ROOMS, *FOUNDATIONS} - {"wire"}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in STATUSES
    ]


def test_no_module_imports_itself_through_others() -> None:
    graph = {module.name: _neighbours(module) for module in package()}
    assert not _cycle(graph)


def test_no_package_imports_itself_through_others() -> None:
    """Neither among the parts of the product, nor among the rooms, nor among the packages inside any other."""
    for folder in {module.name.rpartition(".")[0] for module in package()}:
        assert not _cycle(_packages_of(folder)), f"the packages of {folder} import each other in a circle"


# --- the rules, one function each ---


def _foundation_leaks(module: Module, imported: Module) -> bool:
    return module.part in {"kernel", "wire"} and imported.part != module.part


def _wrong_direction(module: Module, imported: Module) -> bool:
    if module.part not in ROOMS or imported.part not in ROOMS:
        return False
    return ROOMS.index(imported.part) > ROOMS.index(module.part)


def _room_leaks(module: Module, imported: Module) -> bool:
    if module.part not in ROOMS:
        return False
    return imported.part in SHELLS or (imported.part == "store" and _is_pure(module))


def _store_leaks(module: Module, imported: Module) -> bool:
    return module.part == "store" and (imported.part in SHELLS or _stem(imported) == "rules")


def _shell_touches_store(module: Module, imported: Module) -> bool:
    # service/ puts the parts together and drills/ examine a deployment; the others are handed what they need.
    if module.part not in SHELLS - {"service", "drills"}:
        return False
    is_assembly = module.name in {"interlock.api.embedded", "interlock.api.server"}
    return imported.part == "store" and not is_assembly


def _names_a_channel(module: Module, imported: Module) -> bool:
    return imported.part == "channels" != module.part and imported.name != "interlock.channels.table"


# --- reading imports ---


def _offences(rule: object) -> Iterator[str]:
    assert callable(rule)
    for module in package():
        for entry in module.imports:
            imported = _ours(entry)
            if imported is not None and rule(module, imported):
                yield f"{module.place}:{entry.line} imports {imported.name}"


def _ours(entry: Import) -> Module | None:
    return _by_name().get(entry.name) or _by_name().get(entry.name.rpartition(".")[0])


@functools.cache
def _by_name() -> dict[str, Module]:
    return {module.name: module for module in package()}


def _neighbours(module: Module) -> set[str]:
    found = {_ours(entry) for entry in module.imports if entry.at_load}
    return {other.name for other in found if other is not None and other is not module}


def _packages_of(folder: str) -> dict[str, set[str]]:
    """The packages in a folder, each with those beside it that it imports, at load or later."""
    graph: dict[str, set[str]] = {}
    for module in package():
        if (own := _package_in(folder, module)) is None:
            continue
        found = {_ours(entry) for entry in module.imports}
        others = {_package_in(folder, other) for other in found if other is not None} - {own, None}
        graph.setdefault(own, set()).update(other for other in others if other is not None)
    return graph


def _package_in(folder: str, module: Module) -> str | None:
    """The package in `folder` that a module is in; None if it is elsewhere, or a module of the folder itself."""
    inner = module.name.removeprefix(f"{folder}.")
    is_deeper = "." in inner or module.path.name == "__init__.py"
    return inner.partition(".")[0] if is_deeper and inner != module.name else None


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of `graph`, or nothing: whatever is left when all that import nothing left are taken away."""
    left = dict(graph)
    while free := [name for name, uses in left.items() if not uses & left.keys()]:
        for name in free:
            del left[name]
    return sorted(left)


def _worldly_chains(start: Module) -> Iterator[tuple[list[str], str]]:
    """Each way from `start` through our modules to a module of the outside world."""
    chains = [[start]]
    seen = {start.name}
    while chains:
        chain = chains.pop()
        for entry in chain[-1].imports:
            imported = _ours(entry)
            if imported is None and entry.name not in HARMLESS and entry.name.partition(".")[0] in WORLDLY:
                yield [module.name for module in chain], entry.name
            elif imported is not None and entry.at_load and imported.name not in seen:
                seen.add(imported.name)
                chains.append([*chain, imported])


def _is_pure(module: Module) -> bool:
    """Whether it holds rules: every module of a room does unless it is named above, or reads lists."""
    inside = module.name.removeprefix("interlock.rooms.")
    return module.part in ROOMS and not _stem(module).endswith("queries") and inside not in NOT_RULES


def _stem(module: Module) -> str:
    """The file's name in its room, for both `rules.py` and a file in a `rules/` folder."""
    inner = module.name.removeprefix("interlock.rooms.").removeprefix("interlock.").split(".")[1:]
    return inner[0] if inner else ""


def _refusals_of(module: Module) -> set[str]:
    """The refusals that `module` imports from the kernel and the rooms, the kernel's base class among them."""
    found: set[str] = set()
    for entry in module.imports:
        imported, name = _ours(entry), entry.name.rpartition(".")[2]
        if imported is not None and imported.part in {*ROOMS, "kernel"}:
            declared: object = getattr(importlib.import_module(imported.name), name, None)
            if isinstance(declared, type) and issubclass(declared, Refusal):
                found.add(name)
    return found - ASKED_AGAIN


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Whether it only looks (to count, or to wait and try again) and raises the same in the end."""
    return any(isinstance(node, ast.Raise) and node.exc is None for node in ast.walk(handler))


def _names_in(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _is_worldly(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in CLOCK_METHODS
    return isinstance(function, ast.Name) and function.id in IO_BUILTINS


def _by_key(module: Module) -> Iterator[str]:
    """What a module reads something from by a name in quotes."""
    for node in ast.walk(module.tree):
        match node:
            case ast.Subscript(value=read, slice=ast.Constant(value=str()), ctx=ast.Load()):
                yield ast.unparse(read)
            case ast.Call(
                func=ast.Attribute(value=read, attr="get" | "pop"), args=[ast.Constant(value=str()), *_]
            ):
                yield ast.unparse(read)
            case _:
                pass


def _opened(module: Module) -> Iterator[int]:
    """Where a function takes a plain answer of `call` apart, by whatever key, or its fields one after another."""
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        nodes = list(ast.walk(function))
        answers = {name for node in nodes for name in _plain_answers(node)}
        for node in nodes:
            match node:
                case ast.Subscript(value=ast.Name(id=name)) | ast.comprehension(iter=ast.Name(id=name)):
                    pass
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
                    pass
                case ast.For(iter=ast.Name(id=name)):
                    pass
                case _:
                    continue
            if name in answers:
                yield getattr(node, "lineno", function.lineno)


def _plain_answers(node: ast.AST) -> set[str]:
    match node:
        case ast.Assign(targets=targets, value=ast.Call(func=ast.Attribute(attr="call"))):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=ast.Attribute(attr="call"))):
            return {name}
        case _:
            return set()
