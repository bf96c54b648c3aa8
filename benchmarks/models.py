"""What asking models costs beside the models: planning without their latency, and many workers at
once.

The model is a scripted server in a process of its own, so that nothing of it is measured but the
loopback between. Beside the planner stands a bare request of the same size, beside the workers the
same requests by anyio and httpx2 alone, each in the same run.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import anyio
import httpx2

from benchmarks.engine import NOW
from benchmarks.measure import show_table
from wavewright.config.sections import ModelsSection
from wavewright.config.settings import Settings, load_settings
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.executor.run.execution import Execution, execute
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Limits, Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import PlanningRequest
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.fallback_ladder import read_ladders
from wavewright.planner.ports.model_port import ModelCall, ModelClient, ModelUse
from wavewright.planner.types import Json, JsonObject, RunId
from wavewright.prompts import Prompts
from wavewright.tools.models import open_models
from wavewright.tools.workers import Worker, WorkerSpec, make_worker
from wavewright.tools.workers.services import make_services

PLANNING_AIM_MS: Final = 10.0
PARALLEL: Final = 200
LATENCY: Final = 0.2
PARALLEL_AIM: Final = 1.5
PLANNING_TURNS: Final = 30
PARALLEL_TURNS: Final = 3

ROOT = Path(__file__).parent.parent
STEPS: Final = 10

NOTE_PROMPT = "Write one line about this text.\n\n{{ inputs.text }}\n"


def measure_models() -> None:
    """Print both figures beside their aims."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as name:
        folder = Path(name)
        (folder / "prompts" / "bench").mkdir(parents=True)
        (folder / "prompts" / "bench" / "note.md.j2").write_text(NOTE_PROMPT)
        answers: JsonObject = {
            "answers": [
                {"when": {"schema": "note"}, "json": {"line": "a line"}, "delay": LATENCY},
                {"when": {"contains": "RAW"}, "text": "a line", "delay": LATENCY},
                {"when": {"contains": "PING"}, "json": PLAN},
                {"json": PLAN},
            ]
        }
        script = folder / "answers.yaml"
        script.write_text(json.dumps(answers))  # JSON is YAML
        with serving(script) as url:
            bench = Bench(folder, url)
            asyncio.run(bench.planning())
            asyncio.run(bench.workers())


_LOOKS: Final[list[Json]] = [
    {
        "id": f"look_{number}",
        "why": "the goal asks for it",
        "tool": "look_up",
        "params": {"name": f"thing {number}"},
    }
    for number in range(STEPS - 1)
]
_TEXTS: Final[list[Json]] = [f"${{steps.look_{number}.text}}" for number in range(STEPS - 1)]
PLAN: Final[JsonObject] = {
    "reasoning": "Look everything up, then join it.",
    "steps": [
        *_LOOKS,
        {"id": "joined", "why": "one text of all", "tool": "join", "params": {"texts": _TEXTS}},
    ],
    "result": "${steps.joined}",
}


def _signature(
    name: str, description: str, properties: JsonObject, output: JsonObject
) -> ToolSignature:
    return ToolSignature.model_validate(
        {
            "name": name,
            "description": description,
            "input_schema": {
                "type": "object",
                "properties": properties,
                "required": [*properties],
                "additionalProperties": False,
            },
            "output_schema": {"type": "object", "properties": output, "required": [*output]},
        }
    )


TOOLS: Final = {
    "look_up": _signature(
        "look_up", "Look a thing up.", {"name": {"type": "string"}}, {"text": {"type": "string"}}
    ),
    "join": _signature(
        "join",
        "Join texts.",
        {"texts": {"type": "array", "items": {"type": "string"}}},
        {"text": {"type": "string"}},
    ),
}

GOAL: Final = Goal(
    name="bench",
    job="bench",
    text="Look nine things up and join what is found",
    inputs={},
    tools=tuple(AvailableTool(name=name) for name in TOOLS),
)


@contextmanager
def serving(script: Path) -> Generator[str]:
    """Run the scripted server in a process of its own and yield its address."""
    command = [
        sys.executable,
        "-m",
        "wavewright.engine.main",
        "fake-model",
        "--port",
        "0",
        "--quiet",
    ]
    with subprocess.Popen(  # noqa: S603 - our own module
        [*command, "--script", str(script)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


@dataclass(frozen=True, slots=True)
class Bench:
    """A project in a folder whose model is at an address."""

    folder: Path
    url: str

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name the model."""
        return {
            **os.environ,
            "WAVEWRIGHT_MODEL": "openai-chat:scripted",
            "WAVEWRIGHT_BASE_URL": self.url,
            "WAVEWRIGHT_API_KEY": "sk-bench",
        }

    @property
    def settings(self) -> Settings:
        """The project's settings."""
        settings = load_settings(self.folder, self.environment)
        return replace(settings, models=ModelsSection(prices={}))

    async def planning(self) -> None:
        """Print what the planner phase takes when its model takes nothing."""
        prompts, ladder = Prompts(), read_ladders({})["planner"]
        async with open_models(
            self.settings, MemoryBudgetStore(), environment=self.environment
        ) as models:
            uses: list[ModelUse] = []

            async def plan() -> None:
                asking = Asking(models=models, prompts=prompts, ladder=ladder, on_use=uses.append)
                planned = await make_plan(PlanningRequest(GOAL, TOOLS), asking)
                if planned.rung != "llm":
                    raise AssertionError(f"the measured planner ended on {planned.rung!r}")

            async def ask() -> None:
                await models.ask(ModelCall("planner", "bench", "Be short.", "PING"))

            async with httpx2.AsyncClient() as client:
                await plan()
                body = _raw_body("PING ".ljust(uses[0].input_chars, "."))

                async def request() -> None:
                    await _post(client, f"{self.url}/chat/completions", body)

                bare, asked, planned = await _in_turns(PLANNING_TURNS, request, ask, plan)
        bare_ms, planned_ms = _ms(bare), _ms(planned)
        overhead = [whole - wire for whole, wire in zip(planned_ms, bare_ms, strict=True)]
        show_table(
            f"Planner phase over loopback, a plan of {STEPS} steps, ms",
            ["what", "best", "median", "aim"],
            [
                ["a bare request of that size (httpx2)", *bare_ms, ""],
                ["a call through the models' port", *_ms(asked), ""],
                ["the planner phase", *planned_ms, ""],
                ["its overhead: the phase less the request", *overhead, f"< {PLANNING_AIM_MS:g}"],
            ],
        )

    async def workers(self) -> None:
        """Print what many parallel workers take over a model that takes its time."""
        async with open_models(
            self.settings, MemoryBudgetStore(), environment=self.environment
        ) as models:

            async def ask_all() -> None:
                async with anyio.create_task_group() as group:
                    for number in range(PARALLEL):
                        call = ModelCall("worker", "bench", "Be short.", f"RAW {number}")
                        group.start_soon(models.ask, call)

            limits = httpx2.Limits(max_connections=PARALLEL)
            async with httpx2.AsyncClient(limits=limits) as client:
                body = _raw_body("RAW")

                async def request_all() -> None:
                    async with anyio.create_task_group() as group:
                        for _ in range(PARALLEL):
                            group.start_soon(_post, client, f"{self.url}/chat/completions", body)

                turns = await _in_turns(
                    PARALLEL_TURNS, request_all, ask_all, lambda: self._run_workers(models)
                )
        bare, asked, ran = turns
        aim = f"< {PARALLEL_AIM:g}"
        show_table(
            f"{PARALLEL} calls at once of a model that takes {LATENCY:g} s, s",
            ["what", "best", "median", "aim"],
            [
                ["anyio and httpx2 alone", min(bare), statistics.median(bare), ""],
                ["through the models' port", min(asked), statistics.median(asked), ""],
                ["workers of a plan, by the engine", min(ran), statistics.median(ran), aim],
            ],
        )

    async def _run_workers(self, models: ModelClient) -> None:
        spec = WorkerSpec(
            name="note",
            description="Write one line about a text.",
            prompt="bench/note",
            input_schema={
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
            output_schema={
                "type": "object",
                "properties": {"line": {"type": "string"}},
                "required": ["line"],
                "additionalProperties": False,
            },
            token_share=0.02,
        )
        tool = make_worker(Worker(spec), make_services(self.settings, models))
        items = [f"text {number}" for number in range(PARALLEL)]
        plan = Plan.model_validate(
            {
                "steps": [
                    {
                        "id": "notes",
                        "tool": "note",
                        "for_each": items,
                        "params": {"text": "${item}"},
                    }
                ]
            }
        )
        state = await execute(
            Execution(
                plan,
                {"note": tool},
                run=RunId("bench"),
                now=NOW,
                limits=Limits(concurrency=PARALLEL),
            )
        )
        [ended] = state.steps.values()
        if ended.status != "ok" or ended.items != (PARALLEL, PARALLEL):
            raise AssertionError(f"the measured workers went wrong: {ended.status} {ended.error}")


def _raw_body(prompt: str) -> JsonObject:
    return {"model": "scripted", "messages": [{"role": "user", "content": prompt}]}


async def _post(client: httpx2.AsyncClient, url: str, body: JsonObject) -> None:
    answer = await client.post(url, json=body, timeout=30)
    answer.raise_for_status()
    answer.json()


async def _in_turns(turns: int, *candidates: Callable[[], Awaitable[None]]) -> list[list[float]]:
    """Return the seconds of each turn of each candidate, after one that warms up."""
    seconds: list[list[float]] = [[] for _ in candidates]
    for turn in range(turns + 1):
        for number, candidate in enumerate(candidates):
            started = time.perf_counter()
            await candidate()
            if turn:
                seconds[number].append(time.perf_counter() - started)
    return seconds


def _ms(seconds: list[float]) -> tuple[float, float]:
    return min(seconds) * 1000, statistics.median(seconds) * 1000
