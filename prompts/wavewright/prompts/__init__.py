"""Prompts for models as Jinja2 files, one folder per package; the public API of
`wavewright.prompts`.

Jinja2 is imported when the first prompt is rendered.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
