"""Where packs are: their entry points, and the goal templates and prompts in their folders.

Nothing here imports a pack.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path

from wavewright.prompts import Prompts

PACK_GROUP = "wavewright.packs"


def entry_points_of_packs() -> Mapping[str, EntryPoint]:
    """Return the entry points of the installed packs by the packs' names."""
    return _entry_points_on(tuple(sys.path))


def pack_templates() -> Mapping[str, Path]:
    """Return the goal templates of the installed packs by name, without importing one.

    They are the files `goals/*.yaml` in the folder of a pack's module.

    >>> from wavewright.tools import pack_templates
    >>> pack_templates()["stock_analysis"].name
    'stock_analysis.yaml'
    """
    return {
        path.stem: path
        for _, folder in sorted(_folders_of_packs().items())
        for path in sorted(folder.glob("goals/*.yaml"))
    }


def templates_by_pack() -> Mapping[str, frozenset[str]]:
    """Return the names of the goal templates of each installed pack, without importing one."""
    templates = dict.fromkeys(entry_points_of_packs(), frozenset[str]())
    for name, folder in _folders_of_packs().items():
        templates[name] = frozenset(path.stem for path in folder.glob("goals/*.yaml"))
    return templates


def pack_prompts() -> Mapping[str, Path]:
    """Return the folder of each installed pack's prompts by the pack's name, without importing one.

    It is the folder `prompts` in the folder of a pack's module; a pack without it is left out.
    """
    prompts = {name: folder / "prompts" for name, folder in _folders_of_packs().items()}
    return {name: folder for name, folder in prompts.items() if folder.is_dir()}


def project_prompts(folders: Sequence[Path] = ()) -> Prompts:
    """Return the prompts of a project with those of the installed packs; the project's come first.

    >>> from wavewright.tools import project_prompts
    >>> "planner/instructions" in project_prompts().names()
    True
    """
    return Prompts(folders, pack_prompts)


def _folders_of_packs() -> dict[str, Path]:
    """Return the folder of each pack's module by the pack's name; one that cannot be found has none."""
    folders = {name: _folder_of(entry.module) for name, entry in entry_points_of_packs().items()}
    return {name: folder for name, folder in folders.items() if folder is not None}


@lru_cache(maxsize=32)
def _folder_of(module: str) -> Path | None:
    """Return the folder of a module without importing it; none where it cannot be found."""
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


@lru_cache(maxsize=8)
def _entry_points_on(places: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return the entry points of what is installed; it reads some hundred files, and a daemon asks
    for each job.
    """
    del places  # they are where it looks
    return {entry.name: entry for entry in entry_points(group=PACK_GROUP)}
