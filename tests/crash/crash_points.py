"""Named places in the life of a job at which a process may die.

A *point* lies between an effect and the note of it, or right beside one of them. In a child that
was told to die at the n-th point that it comes to, `reach` ends it; everywhere else it only counts.
"""

from __future__ import annotations

from collections.abc import Callable

DIED = 137
"""Exit code of a process that ended at a point."""


class _Course:
    def __init__(self) -> None:
        self.reached: list[str] = []
        self.at_point: Callable[[str, int], None] = _go_on


def _go_on(_name: str, _number: int) -> None:
    return


_course = _Course()


def reach(name: str) -> None:
    """Come to a point."""
    _course.reached.append(name)
    _course.at_point(name, len(_course.reached))


def reached() -> list[str]:
    """Return the points that were come to, in their order."""
    return list(_course.reached)


def at_points(act: Callable[[str, int], None]) -> None:
    """Call something at every point, with its name and its number; counting begins anew."""
    _course.reached.clear()
    _course.at_point = act
