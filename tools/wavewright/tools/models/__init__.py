"""The way to language models: which is asked, how patiently, and what it costs.

A *provider* is whoever serves models; a model is named `provider:name`. This door is light: nothing of a provider's
library is imported before `open_models` is entered.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
