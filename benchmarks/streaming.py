"""What a streaming start gains: ten plans that arrive at 60 tokens a second, with it and without,
side by side.

The model is the scripted server, which sends four characters 60 times a second. All runs go on at
once, since they wait most of the time. Beside each stands its floor, a schedule in which each step
starts when it has arrived and what it waits for has ended, with the stream as fast as it was in
that run; and `max(arrival of the last step, critical path)`, which no step that takes time can
reach.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import anyio

from benchmarks.measure import show_table
from wavewright.config.documents import read_document
from wavewright.config.sections import PlannerSection
from wavewright.config.settings import Settings, settings_without_file
from wavewright.engine.interfaces.api.plan_run import CallbackApprover
from wavewright.engine.rehearsal.fake_model.replies import Reply
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.resolving import resolve_job
from wavewright.engine.run.ports import Attempt, Means, People, Ports, withhold_package
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.executor.events.types import Event, ModelCalled, PlanAccepted, StepFinished
from wavewright.executor.sqlite.journal import SqliteJournal

TOKENS_A_SECOND: Final = 60
CHARS_A_TOKEN: Final = 4
RATIO_AIM: Final = 1.3
SECONDS: Final = 1.0


async def look_up(number: int, after: list[int]) -> int:
    """Look a number up, after others."""
    await anyio.sleep(SECONDS)
    return number + len(after)


@dataclass(frozen=True, slots=True)
class Workload:
    """A plan: for each step the numbers of the steps that it reads."""

    name: str
    reads: tuple[tuple[int, ...], ...]

    @property
    def answer(self) -> str:
        """The plan as the model writes it."""
        steps = [
            {
                "why": "the goal needs what this step looks up",
                "id": f"s{number}",
                "tool": "look_up",
                "params": {
                    "number": number,
                    "after": f"${{[{', '.join(f'steps.s{one}' for one in reads)}]}}",
                },
            }
            for number, reads in enumerate(self.reads)
        ]
        return json.dumps(
            {"reasoning": "Each look-up is a step.", "steps": steps, "result": "${steps.s0}"}
        )

    def floors(self, streamed: float) -> tuple[float, float]:
        """Return the two floors in seconds, for a stream that took so long."""
        text = self.answer
        ends: list[float] = []
        arrived = 0.0
        depths: list[float] = []
        for number, reads in enumerate(self.reads):
            last = text.index("}}", text.index(f'"id": "s{number}"')) + 2
            arrived = streamed * last / len(text)
            ends.append(max([arrived, *(ends[one] for one in reads)]) + SECONDS)
            depths.append(max([0.0, *(depths[one] for one in reads)]) + SECONDS)
        return max(ends), max([arrived, *depths])


_WARM_UP: Final = Workload("warm up", ((),))


def workloads() -> list[Workload]:
    """Return parallel look-ups, plans of two stages, layers and chains of 8 to 30 steps."""
    found = [Workload(f"parallel {count}", ((),) * count) for count in (10, 15, 20, 30)]
    for count in (10, 20, 30):
        half = count // 2
        found.append(
            Workload(
                f"two stages {count}", ((),) * half + tuple((one,) for one in range(count - half))
            )
        )
    found.append(
        Workload(
            "layers 20",
            tuple(tuple(range(n // 5 * 5 - 5, n // 5 * 5)) if n >= 5 else () for n in range(20)),
        )
    )
    found += [
        Workload(f"chain {count}", ((), *((one,) for one in range(count - 1)))) for count in (8, 10)
    ]
    return found


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one run."""

    streamed: float
    """Until the planner's answer was whole."""
    whole: float
    """Until the last step had ended."""


async def _run(
    folder: Path, workload: Workload, stream: Literal["auto", "off"], environment: Mapping[str, str]
) -> Timing:
    settings: Settings = replace(
        settings_without_file(folder, folder),
        functions=(look_up,),
        model=environment["WAVEWRIGHT_MODEL"],
        base_url=environment["WAVEWRIGHT_BASE_URL"],
        api_key=environment["WAVEWRIGHT_API_KEY"],
        planner=PlannerSection(stream=stream),
    )
    events: list[tuple[float, Event]] = []
    started = time.perf_counter()
    async with (
        SqliteJournal(folder / "journal.sqlite") as journal,
        open_services(settings) as services,
    ):
        ports = Ports(
            attempt=Attempt(
                journal=journal,
                on_event=lambda event: events.append((time.perf_counter() - started, event)),
            ),
            means=Means(settings=settings, services=services),
            people=People(approver=CallbackApprover(None)),
            publish=withhold_package,
        )
        template = {
            "version": 1,
            "name": "look_ups",
            "goal": f"Look numbers up: {workload.name}.",
            "available_tools": [{"name": "look_up"}],
        }
        document = read_document(json.dumps(template), "the goal")
        job = resolve_job(document, folder / "job", None, settings)
        await run_job(RunRequest(resolved_job=job), ports)
    kinds = {type(event) for _, event in events}
    assert {ModelCalled, PlanAccepted, StepFinished} <= kinds, kinds
    begun = events[0][0]
    planned = next(at for at, event in events if isinstance(event, ModelCalled))
    ended = max(at for at, event in events if isinstance(event, StepFinished))
    return Timing(planned - begun, ended - begun)


async def _measure(
    chosen: Sequence[Workload], folder: Path
) -> list[tuple[Workload, Timing, Timing]]:
    found: dict[tuple[str, str], Timing] = {}

    with FakeModelServer() as server:
        server.answer(_WARM_UP.answer, when=partial(_asks_for_plan, _WARM_UP.name))
        await _run(folder, _WARM_UP, "auto", server.environment())
        for workload in chosen:
            reply = Reply(text=workload.answer, piece=CHARS_A_TOKEN, interval=1 / TOKENS_A_SECOND)
            server.answer(reply, reply, when=partial(_asks_for_plan, workload.name))

        async def measure(workload: Workload, stream: Literal["auto", "off"]) -> None:
            own = folder / f"{workload.name}-{stream}"
            own.mkdir()
            found[workload.name, stream] = await _run(own, workload, stream, server.environment())

        async with anyio.create_task_group() as group:
            for workload in chosen:
                group.start_soon(measure, workload, "auto")
                group.start_soon(measure, workload, "off")
    return [(one, found[one.name, "off"], found[one.name, "auto"]) for one in chosen]


def _asks_for_plan(name: str, request: FakeModelRequest) -> bool:
    return request.schema_name == "plan" and f"Look numbers up: {name}." in request.text


def measure_streaming() -> None:
    """Print the ten workloads with their ratios."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as name:
        rows: list[list[str]] = []
        ratios: list[float] = []
        for workload, off, auto in asyncio.run(_measure(workloads(), Path(name))):
            floor, aim = workload.floors(auto.streamed)
            ratios.append(off.whole / auto.whole)
            rows.append(
                [
                    workload.name,
                    f"{off.whole:.2f}",
                    f"{auto.whole:.2f}",
                    f"{ratios[-1]:.2f}",
                    f"{auto.streamed:.2f}",
                    f"{auto.whole / floor:.3f}",
                    f"{auto.whole / aim:.3f}",
                ]
            )
    show_table(
        f"Streaming start at {TOKENS_A_SECOND} tokens a second, steps of {SECONDS:g} s (aim {RATIO_AIM})",
        [
            "plan",
            "plan first, s",
            "streaming, s",
            "ratio",
            "stream, s",
            "over its floor",
            "over max(last, path)",
        ],
        rows,
    )
    print(f"median ratio {statistics.median(ratios):.2f}, least {min(ratios):.2f}")
