"""Measure the engine: `python -m benchmarks [part …] [--quick]`."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable

from benchmarks.checking import measure_checking
from benchmarks.daemon import (
    WHOLE,
    Extent,
    measure_daemons,
    measure_drain,
    measure_load,
    measure_steps,
)
from benchmarks.dry_run import measure_dry_run
from benchmarks.editor import measure_editor
from benchmarks.fleet import measure_fleet
from benchmarks.fleet_model import measure_fleet_model
from benchmarks.graph import measure_graph
from benchmarks.huge import measure_huge
from benchmarks.knowledge import measure_knowledge
from benchmarks.lore import measure_lore
from benchmarks.makespan import measure_makespan
from benchmarks.mcp import measure_mcp
from benchmarks.models import measure_models
from benchmarks.overhead import measure_journaled, measure_memory
from benchmarks.postgres import measure_postgres
from benchmarks.size import measure_size
from benchmarks.starting import measure_starting
from benchmarks.streaming import measure_streaming
from benchmarks.tabletop import measure_tabletop
from benchmarks.viewers import measure_viewers
from benchmarks.viewing import measure_viewing


def main() -> None:
    """Run the parts that are asked for, or all."""
    reader = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    sizes: tuple[int, ...] = (100, 1_000, 10_000)
    parts: dict[str, Callable[[], None]] = {
        "memory": lambda: measure_memory(sizes),
        "journaled": lambda: measure_journaled(sizes),
        "postgres": lambda: measure_postgres(sizes),
        "fleet": measure_fleet,
        "fleet-model": measure_fleet_model,
        "huge": measure_huge,
        "makespan": measure_makespan,
        "check": lambda: measure_checking(sizes),
        "dry-run": measure_dry_run,
        "editor": measure_editor,
        "start": measure_starting,
        "models": measure_models,
        "streaming": measure_streaming,
        "mcp": measure_mcp,
        "tabletop": measure_tabletop,
        "view": measure_viewing,
        "viewers": measure_viewers,
        "graph": measure_graph,
        "knowledge": measure_knowledge,
        "lore": measure_lore,
        "daemon": lambda: measure_daemons(extent()),
        "steps": lambda: measure_steps(extent()),
        "drain": lambda: measure_drain(extent()),
    }
    together: dict[str, Callable[[], None]] = {
        "load": lambda: measure_load(WHOLE),
        "size": measure_size,
    }
    reader.add_argument(
        "part",
        nargs="*",
        choices=[*parts, *together, []],
        help=f"of {', '.join(parts)}; all where absent; or load: daemon, steps and drain in full, twenty minutes;"
        " or size, of the code",
    )
    reader.add_argument("--quick", action="store_true", help="no plan of 10,000 steps or more")
    reader.add_argument(
        "--seconds", type=float, default=20.0, help="how long daemons are held under each load"
    )
    reader.add_argument("--jobs", type=int, default=0, help="that the first load takes at least")
    reader.add_argument("--messages", type=int, default=5_000, help="of a drain")
    reader.add_argument(
        "--daemons", type=int, nargs="*", default=[1, 2, 4], help="how many at once, in turn"
    )
    asked = reader.parse_args()

    def extent() -> Extent:
        return Extent(
            asked.seconds, asked.jobs, asked.seconds, asked.messages, tuple(asked.daemons)
        )

    if asked.quick:
        sizes = sizes[:2]
        del parts["huge"]
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}"
    )
    for name, measure in (parts | together).items():
        if name in asked.part or (not asked.part and name in parts):
            measure()


if __name__ == "__main__":
    main()
