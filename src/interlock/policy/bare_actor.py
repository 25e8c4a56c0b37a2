"""`actor` by itself in an expression means the actor's name, as it does in `when`.

`actor` is a map (`id`, `kind`, `groups`, `owner`), so `actor == "bot"` would be false for everybody, and in a rule
that denies nobody would notice. Wherever it is not used as a map it is therefore read as `actor.id`.
"""

from __future__ import annotations

from collections.abc import Iterator

from interlock.policy.syntax import Call, Collection, Constant, Expression, Field, Loop, Name, Tree

_ACTOR = "actor"
_NAME = ".id"
_INDEX, _MEMBER = "_[_]", "@in"


def with_actors_named(text: str, tree: Tree) -> str:
    """The expression with `actor` spelled `actor.id` where it stands by itself."""
    for offset in sorted({tree.offsets[node.id] for node in _bare(tree.root)}, reverse=True):
        end = text.index(_ACTOR, offset) + len(_ACTOR)
        text = text[:end] + _NAME + text[end:]
    return text


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
