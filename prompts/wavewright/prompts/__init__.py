"""Prompts: what models are told, as Jinja2 files, one folder a room or a pack.

This is the room's door. Jinja2 is loaded when a prompt is rendered, not before.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
