"""What `actor` means in an expression: the actor's name, as in `when`, unless it is used as a map.

`actor` is a map (`id`, `kind`, `groups`, `owner`), so `actor == "bot"` would be false for everybody, and nobody would
notice that in a rule that denies. So wherever `actor` is not used as a map, it is read as `actor.id`. For the same
reason, comparing any part of it with null is an error: no part is ever null, and an actor without an owner has an
empty one.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.rooms.policy.syntax import (
    Call,
    Collection,
    Constant,
    Expression,
    Field,
    Loop,
    Name,
    Tree,
    nodes_of,
)

_ACTOR = "actor"
_NAME = ".id"
_INDEX, _MEMBER = "_[_]", "@in"
_EQUALITIES = ("_==_", "_!=_")
_INSTEAD = {"owner": 'compare it with "", which it is for whoever has none'}
_NOT = "leave this out"


def with_actors_named(text: str, tree: Tree) -> str:
    """The expression with `actor` spelled `actor.id` where it stands by itself."""
    for offset in sorted({tree.offsets[node.id] for node in _bare(tree.root)}, reverse=True):
        end = text.index(_ACTOR, offset) + len(_ACTOR)
        text = text[:end] + _NAME + text[end:]
    return text


def compared_with_null(tree: Tree) -> list[tuple[int, str]]:
    """Where something of the actor is, and what to write instead."""
    found: list[tuple[int, str]] = []
    shadowed = _in_loops_over_actors(tree)
    for call in nodes_of(tree.root):
        if not isinstance(call, Call) or call.function not in _EQUALITIES or call.id in shadowed:
            continue
        left, right = call.arguments
        for compared, null in ((left, right), (right, left)):
            name = _of_actor(compared)
            if name is not None and isinstance(null, Constant) and null.is_null:
                found.append(
                    (tree.offsets.get(call.id, 0), f"actor.{name} is never null; {_INSTEAD.get(name, _NOT)}")
                )
    return found


def _in_loops_over_actors(tree: Tree) -> set[int]:
    """What is inside loops whose own variable is called `actor`."""
    loops = [node for node in nodes_of(tree.root) if isinstance(node, Loop) and _ACTOR in node.variables]
    parts = [part for loop in loops for part in (loop.condition, loop.step, loop.result)]
    return {node.id for part in parts for node in nodes_of(part)}


def _of_actor(expression: Expression) -> str | None:
    """The field of `actor` that this is, if it is one."""
    match expression:
        case Name(name="actor"):
            return "id"
        case Field(operand=Name(name="actor"), name=field):
            return field
        case Call(function="_[_]", arguments=(Name(name="actor"), Constant(text=bytes(key)))):
            return key.decode()
        case _:
            return None


def _bare(expression: Expression) -> Iterator[Name]:
    match expression:
        case Name():
            if expression.name == _ACTOR:
                yield expression
        case Constant():
            return
        case Field():
            yield from _below(expression.operand)
        case Call():
            mapped = {_INDEX: 0, _MEMBER: 1}.get(expression.function)
            for place, each in enumerate(expression.arguments):
                yield from _below(each) if place == mapped else _bare(each)
        case Collection():
            for each in expression.members:
                yield from _bare(each)
        case Loop():
            yield from _in_loop(expression)


def _below(expression: Expression) -> Iterator[Name]:
    """What is bare inside something that is used as a map."""
    return iter(()) if isinstance(expression, Name) else _bare(expression)


def _in_loop(loop: Loop) -> Iterator[Name]:
    yield from _below(loop.over)
    if _ACTOR in loop.variables:
        return  # another `actor`: the loop's own
    for part in (loop.start, loop.condition, loop.step, loop.result):
        yield from _bare(part)
