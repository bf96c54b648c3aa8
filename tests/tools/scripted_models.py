"""A scripted implementation of the port `Models`: what it is asked is on record, what it says was
written before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from wavewright.config.settings import Settings
from wavewright.planner.ports.model_port import (
    LoopLimits,
    LoopTool,
    LoopToolError,
    ModelAnswer,
    ModelCall,
    ModelChoice,
    ModelError,
    ModelUse,
    NamedCall,
    OnText,
    OnUse,
    Role,
)
from wavewright.planner.types import Json, JsonObject
from wavewright.tools.workers import Services, make_services

Said: TypeAlias = str | JsonObject | list[Json] | ModelAnswer | ModelError
Script: TypeAlias = Said | Callable[[ModelCall], Said]

MODEL = "scripted:one"


@dataclass(frozen=True)
class Step:
    """What a scripted agent does with one question: calls of tools, made one after the other."""

    calls: tuple[tuple[str, JsonObject], ...]


@dataclass
class ScriptedModels:
    """Says the next line of its script to every question; the last line is said for ever."""

    script: list[Script]
    steps: list[Step] = field(default_factory=list[Step])
    """What an agent does before it answers with the next line."""
    asked: list[ModelCall] = field(default_factory=list[ModelCall])
    shown: list[Json] = field(default_factory=list[Json])
    """What an agent's calls gave it to see; an error as text."""
    offered: list[LoopTool] = field(default_factory=list[LoopTool])
    limits: LoopLimits | None = None
    fallbacks: tuple[str, ...] = ()

    async def ask(
        self, call: ModelCall, *, on_use: OnUse | None = None, on_text: OnText | None = None
    ) -> ModelAnswer:
        answer = self._next(call, on_use)
        if on_text is not None:
            for word in answer.text.split(" "):
                on_text(word + " ")
        return answer

    async def work(
        self,
        call: ModelCall,
        tools: Sequence[LoopTool],
        limits: LoopLimits,
        *,
        on_use: OnUse | None = None,
        on_text: OnText | None = None,
    ) -> ModelAnswer:
        self.offered = list(tools)
        self.limits = limits
        by_name = {tool.name: tool for tool in tools}
        for step in self.steps:
            for name, params in step.calls:
                try:
                    self.shown.append(await by_name[name].call(params))
                except LoopToolError as error:
                    self.shown.append(str(error))
        return self._next(call, on_use)

    def choose(self, preference: str, role: Role) -> ModelChoice:
        if preference == "nobody":
            raise ModelError(
                "denied", "no model is called 'nobody'", hint="preferences: auto, flash, pro"
            )
        return ModelChoice(MODEL, f"{preference} for {role}", self.fallbacks)

    def _next(self, call: ModelCall, on_use: OnUse | None) -> ModelAnswer:
        self.asked.append(call)
        line = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        said = line(call) if callable(line) else line
        use = ModelUse(
            call.role,
            call.name,
            MODEL,
            "answered",
            10,
            5,
            rung=call.rung,
            step=call.step,
            index=call.index,
        )
        if isinstance(said, ModelError):
            if on_use is not None:
                on_use(replace(use, outcome="failed", message=str(said)))
            raise said
        if on_use is not None:
            on_use(use)
        if isinstance(said, ModelAnswer):
            return said
        return ModelAnswer(said if isinstance(said, str) else json.dumps(said), use)


def answer_of(
    text: str, *, is_truncated: bool = False, calls: tuple[NamedCall, ...] = ()
) -> ModelAnswer:
    """Return an answer with more to it than its text."""
    use = ModelUse("worker", "x", MODEL, "answered")
    return ModelAnswer(text, use, is_truncated=is_truncated, calls=calls)


def project(folder: Path, *, model: str | None = MODEL) -> Settings:
    """Return the settings of a project in a folder, with a model configured."""
    return Settings(
        folder,
        folder / ".wavewright",
        folder / "journal.sqlite",
        folder / "runs",
        model=model,
        prompts=(folder / "prompts",),
        workers=(folder / "config" / "workers",),
    )


def serving(folder: Path, *script: Script) -> tuple[Services, ScriptedModels]:
    """Return services whose model says these lines."""
    models = ScriptedModels(list(script))
    return make_services(project(folder), models), models
