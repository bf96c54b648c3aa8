"""The project that a test belongs to: where it is, its settings, and its files by name.

The *project under test* is the folder with `wavewright.yaml` nearest above the test's own file, so that a test does the
same from whichever folder pytest is started. What the tester's environment says of models, journals and folders does
not count, but for live tests.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.settings import find_settings_file, load_settings
from wavewright.engine.api.loaded_plan import LoadedPlan
from wavewright.engine.cli.common.arguments import parse_instant
from wavewright.engine.cli.common.errors import error_text
from wavewright.engine.pipeline.context import RunRequest
from wavewright.engine.testing.claims import assertion_failure
from wavewright.planner.ports.model_port import ModelError

if TYPE_CHECKING:
    import datetime as dt

    from wavewright.config.settings import Settings

Loadable: TypeAlias = str | os.PathLike[str] | LoadedPlan
"""A job, a plan or a goal template: its file, or as the program has loaded or built it."""


@contextmanager
def errors_as_failures() -> Generator[None]:
    """Turn the engine's errors for users into the message of a failed test, without a traceback."""
    __tracebackhide__ = True
    try:
        yield
    except WavewrightError as error:
        if error.exit_code == exit_codes.INTERNAL and not isinstance(error, ModelError):
            raise
        # From nothing: pytest would show what was caught, traceback and all, above the message.
        raise assertion_failure(error_text(error)) from None


@dataclass(frozen=True, slots=True)
class ProjectUnderTest:
    """Where the test's project is, and where the test."""

    root: Path
    tests: Path
    """Folder of the test's own file."""
    is_live: bool = False
    """Whether the test may ask models."""

    @classmethod
    def containing(cls, tests: Path, otherwise: Path, *, is_live: bool) -> ProjectUnderTest:
        """Return the project that a folder of tests lies in; `otherwise` where there are no settings above it."""
        file = find_settings_file(tests)
        return cls(otherwise if file is None else file.parent, tests, is_live)

    def settings(self) -> Settings:
        """Return the project's settings; faulty ones fail the test."""
        __tracebackhide__ = True
        with errors_as_failures():
            return load_settings(self.root, os.environ if self.is_live else {})

    def file(self, name: str | os.PathLike[str]) -> Path:
        """Return a file by its name: relative to the project or else to the test, and short where it can be."""
        __tracebackhide__ = True
        given = Path(name)
        for folder in (self.root, self.tests):
            found = folder / given
            if found.is_file():
                inside = found.is_relative_to(self.root)
                return found.relative_to(self.root) if inside else found
        raise assertion_failure(f"there is no file {str(given)!r} in the project {self.root}")

    def run_request(
        self,
        file: Loadable,
        plan: str | os.PathLike[str] | None,
        as_of: dt.datetime | str | None,
    ) -> RunRequest:
        """Return the request to run a job, a plan or a goal template."""
        __tracebackhide__ = True
        return RunRequest(
            job_file=None if isinstance(file, LoadedPlan) else self.file(file),
            resolved_job=file.job if isinstance(file, LoadedPlan) else None,
            plan_file=None if plan is None else self.file(plan),
            as_of=parse_instant(as_of, "as_of") if isinstance(as_of, str) else as_of,
        )

    @contextlib.contextmanager
    def as_working_folder(self) -> Generator[None]:
        """Work in the project's folder, as its commands do; what is wrong with its documents fails the test."""
        __tracebackhide__ = True
        with contextlib.chdir(self.root), errors_as_failures():
            yield
