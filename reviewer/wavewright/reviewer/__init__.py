"""From a run to a verdict, then to a package.

The door of the room: `make_verifier` asks the gates while a run goes on, with a `ModelJudge` where a rubric decides;
`review_by_code` judges the run, and `review_by_model` lowers that verdict; `replan` would mend it, by recipe or by
model; `build_package` gathers what leaves it, `render_report` and `render_summary` show that. Nothing is imported
before it is used, so that whoever needs a record does not pay for the report.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # pyright: ignore[reportUnknownVariableType]
