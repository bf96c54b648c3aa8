"""The project that a test belongs to: where it is, its settings, and its files by name.

The *project under test* is the folder with `wavewright.yaml` nearest above the test's own file, so that a test does the
same from whichever folder pytest is started. What the tester's environment says of models, journals and folders does
not count, but for live tests.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.engine.testing.claims import assertion_failure
from wavewright.engine.testing.faults import errors_as_failures

if TYPE_CHECKING:
    from wavewright.config.settings import Settings


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
        from wavewright.config.settings import find_settings_file

        file = find_settings_file(tests)
        return cls(otherwise if file is None else file.parent, tests, is_live)

    def settings(self) -> Settings:
        """Return the project's settings; faulty ones fail the test."""
        from wavewright.config.settings import load_settings

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

    @contextlib.contextmanager
    def as_working_folder(self) -> Generator[None]:
        """Work in the project's folder, as its commands do; what is wrong with its documents fails the test."""
        __tracebackhide__ = True
        with contextlib.chdir(self.root), errors_as_failures():
            yield
