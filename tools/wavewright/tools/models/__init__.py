"""Access to language models: which one is asked, how often, and at what cost.

A *provider* serves models; a model is named `provider:name`. No provider's library is imported
before `open_models` is entered.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
