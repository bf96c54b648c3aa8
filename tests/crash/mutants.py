"""Bugs that are planted to see whether the programme finds them."""

from __future__ import annotations


def plant(name: str | None) -> None:
    """Put a bug into this process; nothing where there is no name."""
    if name is not None:
        raise NotImplementedError(name)
