"""In which order a class's bases are asked for what the class lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def linearise(name: str, bases: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    """The class and all that it inherits from, nearest first: C3 (Barrett et al., 1996), as Python does it.

    Where C3 finds no order, or a class inherits from itself, it is breadth first, each class once.
    """
    order = _merge_c3(name, bases, (), {})
    return tuple(order) if order is not None else _breadth_first(name, bases)


def _merge_c3(
    name: str, bases: Callable[[str], Sequence[str]], above: tuple[str, ...], merged_before: dict[str, list[str]]
) -> list[str] | None:
    if name in above or len(above) > _DEEPEST:
        return None
    if name in merged_before:
        return merged_before[name]
    direct = list(dict.fromkeys(bases(name)))
    queues: list[list[str]] = []
    for base in direct:
        order = _merge_c3(base, bases, (*above, name), merged_before)
        if order is None:
            return None
        queues.append(list(order))
    queues.append(direct)
    merged = [name]
    while queues := [queue for queue in queues if queue]:
        tails = {entry for queue in queues for entry in queue[1:]}
        chosen = next((queue[0] for queue in queues if queue[0] not in tails), None)
        if chosen is None:
            return None
        merged.append(chosen)
        queues = [queue[1:] if queue[0] == chosen else queue for queue in queues]
    merged_before[name] = merged
    return merged


def _breadth_first(name: str, bases: Callable[[str], Sequence[str]]) -> tuple[str, ...]:
    order = {name: None}
    queue = [name]
    for entry in queue:
        new = [base for base in dict.fromkeys(bases(entry)) if base not in order]
        order.update(dict.fromkeys(new))
        queue += new
    return tuple(order)


_DEEPEST = 100
"""Classes above each other; more are taken breadth first."""
