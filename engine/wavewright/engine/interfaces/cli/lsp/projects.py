"""The projects that an editor has open: the folder of a file decides its project.

No tool is called, no model asked and no server started: tools of MCP servers are those of the lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from wavewright.config import WavewrightError
from wavewright.config.settings import find_settings_file, load_valid_settings
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.run.project.sound_part import sound_part
from wavewright.engine.run.project.tools import all_tools
from wavewright.tools import Registry

if TYPE_CHECKING:
    from wavewright.config import Settings


@dataclass
class OpenProject:
    """One project: its settings, and its tools once they are asked for."""

    settings: Settings
    """Where they are faulty, their valid part."""
    fault: WavewrightError | None = None
    """Why its settings cannot be used, or its tools not be imported."""
    _lock: Lock = field(default_factory=Lock)
    _tools: Registry | None = None

    def tools(self) -> Registry:
        """Return every tool of the project that can be imported."""
        with self._lock:
            if self._tools is None:
                try:
                    settings, faults = sound_part(self.settings)
                    self.fault = self.fault or next(iter(faults), None)
                    self._tools = all_tools(settings)
                except WavewrightError as error:
                    self._tools = Registry()
                    self.fault = self.fault or error
            return self._tools


@dataclass
class OpenProjects:
    """The projects, each by its settings file, or else by the folder of its files."""

    _by_home: dict[Path, tuple[object, OpenProject]] = field(
        default_factory=dict[Path, "tuple[object, OpenProject]"]
    )
    """With the state of the settings file that each was read from."""

    def of(self, file: Path) -> OpenProject:
        """Return the project of a file; it is read again where its settings have changed."""
        settings_file = find_settings_file(file.parent)
        home, state = settings_file or file.parent, _state_of(settings_file)
        known = self._by_home.get(home)
        if known is not None and known[0] == state:
            return known[1]
        project = _open_project(file.parent)
        self._by_home[home] = (state, project)
        return project

    def forget(self) -> None:
        """Read every project again when it is next asked for: a file of one has changed."""
        self._by_home.clear()


def _open_project(folder: Path) -> OpenProject:
    try:
        return OpenProject(project_settings(start=folder))
    except WavewrightError as error:
        return OpenProject(load_valid_settings(folder)[0], error)


def _state_of(settings_file: Path | None) -> object:
    if settings_file is None:
        return None
    stat = settings_file.stat()
    return settings_file, stat.st_ino, stat.st_mtime_ns, stat.st_size
