"""What is to be different in a replay, as settings of the models that are asked.

The options name another planner, another reviewer or a folder of prompts. A model that is named is used in its role
alone; every other role keeps the model of the project's settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, get_args

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.sections import RoleName
from wavewright.config.settings import Settings
from wavewright.planner.ports.model_port import Role
from wavewright.prompts import Prompts
from wavewright.prompts.templates import SUFFIX

_ROLES: Final[tuple[RoleName, ...]] = get_args(RoleName)
_WORKER_ROLES: Final[frozenset[Role]] = frozenset({"worker", "agent"})
_REVIEW_ROLES: Final[frozenset[Role]] = frozenset({"reviewer", "recovery"})
_ALL_ROLES: Final[frozenset[Role]] = frozenset(get_args(Role))


class ReplayRejected(WavewrightError):
    """A run cannot be replayed as asked."""

    exit_code = exit_codes.MISUSE


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """What is to be different; nothing where all is absent."""

    planner: str | None = None
    """The model that plans and recovers."""
    reviewer: str | None = None
    """The model that reviews."""
    prompt_dir: Path | None = None
    """Prompts that go before the project's."""
    live: bool = False
    """Whether a call that was never recorded is made for real."""

    @property
    def asks_models(self) -> bool:
        """Whether any model is to be asked anew."""
        return self.planner is not None or self.reviewer is not None or self.prompt_dir is not None

    def description(self) -> Iterator[str]:
        """Yield what is different, for people."""
        if self.planner is not None:
            yield f"planner {self.planner}"
        if self.reviewer is not None:
            yield f"reviewer {self.reviewer}"
        if self.prompt_dir is not None:
            yield f"prompts of {self.prompt_dir}"
        if self.live:
            yield "live where nothing is recorded"


def live_roles(request: ReplayOptions) -> frozenset[Role]:
    """Return the roles that are asked anew.

    Another plan has other results, and other prompts are other questions: then no earlier answer counts.
    """
    if request.planner is not None or request.prompt_dir is not None:
        return _ALL_ROLES
    if request.reviewer is not None:
        return _WORKER_ROLES | _REVIEW_ROLES
    return _WORKER_ROLES if request.live else frozenset()


def replay_settings(request: ReplayOptions, settings: Settings) -> Settings:
    """Return the settings of a project with the options applied.

    Raises:
        ReplayRejected: no model is configured, or a name or a folder is invalid.
    """
    if request.prompt_dir is not None:
        folder = _checked_folder(request.prompt_dir, settings)
        settings = replace(settings, prompts=(folder, *settings.prompts))
    wanted: dict[RoleName, str] = {}
    if request.planner is not None:
        wanted |= {"planner": request.planner, "recovery": request.planner}
    if request.reviewer is not None:
        wanted["reviewer"] = request.reviewer
    for option, model in (("--planner", request.planner), ("--reviewer", request.reviewer)):
        _check_model_name(option, model, settings)
    default = settings.model or next((model for model in wanted.values() if ":" in model), None)
    if default is None and request.asks_models:
        raise ReplayRejected(
            "no model is configured",
            "name one as PROVIDER:NAME with --planner or --reviewer, or set WAVEWRIGHT_MODEL",
        )
    # A model that the environment names is asked for every role; here the one named by an option takes precedence.
    roles = dict(settings.models.roles)
    if settings.model_is_forced and settings.model is not None:
        roles = dict.fromkeys(_ROLES, settings.model)
    models = settings.models.model_copy(update={"roles": {**roles, **wanted}})
    return replace(
        settings, model=default, model_is_forced=settings.model_is_forced and not wanted, models=models
    )


def _check_model_name(option: str, model: str | None, settings: Settings) -> None:
    """Raise an error where a name is not that of a model."""
    if model is None:
        return
    from wavewright.tools.models.endpoints import ModelConfigError, preference_words, split_model

    if model in preference_words(settings):
        return
    try:
        split_model(model)
    except ModelConfigError as error:
        raise ReplayRejected(f"{option}: {error}", error.hint or "") from None


def _checked_folder(folder: Path, settings: Settings) -> Path:
    """Return the whole path of a folder of prompts; one without any would have no effect, without notice."""
    if not folder.is_dir():
        raise ReplayRejected(
            f"--prompt-dir {str(folder)!r} is no folder", "name a folder with prompt templates in it"
        )
    known = set(Prompts(settings.prompts).names())
    if known.isdisjoint(_names_in(folder)):
        raise ReplayRejected(
            f"--prompt-dir {str(folder)!r} holds none of the prompts that a run asks with",
            f"put a template there, such as planner/request{SUFFIX}; there are {', '.join(sorted(known))}",
        )
    return folder.absolute()


def _names_in(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix().removesuffix(SUFFIX) for file in folder.rglob(f"*{SUFFIX}")}
