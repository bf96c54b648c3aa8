"""Settings, shipped templates, and readers of JSON, YAML and TOML documents; the public API of
`wavewright.config`.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
