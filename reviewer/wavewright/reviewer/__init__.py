"""The review of a run and its package; the public API of the package `wavewright.reviewer`.

`make_verifier` evaluates the gates during a run, with a `ModelJudge` for rubrics; `review_by_code`
judges the run, and `review_by_model` can lower that verdict; `replan` makes a patch, by recipe or
by model; `build_package` collects the results, and `render_report` and `render_summary` show them.
Modules are imported when a name of them is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
