"""`python -m benchmarks.public [nested] [berkeley] [dojo] [--attacks] [--first N] [--packages FOLDER]`.

The packages are those of the dependency group `bench`, which `make dojo` puts into a folder of their
own. What this environment has itself comes first, and the folder brings what is missing.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import anyio

from benchmarks.public import berkeley, dojo, nested
from benchmarks.public.cases import HEAD, Tally, table, tally

_SHOWN = 5
_SUITES = ("banking", "slack", "travel", "workspace")


def main() -> None:
    """Print a table for each benchmark that is named, or for all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="*", choices=[[], "nested", "berkeley", "dojo"])
    parser.add_argument("--attacks", action="store_true", help="attack every task of AgentDojo")
    parser.add_argument("--first", type=int, help="only the first so many of each set")
    parser.add_argument("--packages", type=Path, default=Path(".venv/public-benchmarks"))
    given = parser.parse_args()
    sys.path.append(str(given.packages))
    warnings.filterwarnings("ignore")
    which = given.which or ["nested", "berkeley", "dojo"]
    tallies = list[Tally]()
    if "nested" in which:
        tallies += anyio.run(_nested, given.first)
    if "berkeley" in which:
        folder = _folder_of("bfcl_eval") / "data"
        tallies += (
            tally(f"BFCL {name}", islice(berkeley.read_cases(folder, name), given.first))
            for name in berkeley.CATEGORIES
        )
    if tallies:
        print(table(HEAD, (one.row() for one in tallies)))
        for line in _examples(tallies):
            print(line)
    if "dojo" in which:
        anyio.run(_dojo, given.attacks, given.first)


def _examples(tallies: list[Tally]) -> Iterator[str]:
    for one in tallies:
        yield from (f"{one.name}: not accepted: {line}" for line in one.refusals[:_SHOWN])
        yield from (f"{one.name}: mutant accepted: {line}" for line in one.missed[:_SHOWN])


async def _nested(first: int | None) -> list[Tally]:
    folder, made = _folder_of("data_v1"), list[Tally]()
    for name in nested.SETS:
        tools, sequences = nested.read_set(folder, name)
        sequences = sequences[:first]
        cases = [*nested.read_cases(sequences, tools)]
        found = tally(name, cases)
        made.append(found)
        if name == nested.RECORDED:
            ran = [
                await nested.runs_as_published(sequence, tools, case)
                for sequence, case in zip(sequences, cases, strict=True)
            ]
            print(
                f"{name}: {sum(ran):,} of {len(ran):,} plans run to exactly the published arguments"
            )
    return made


async def _dojo(attacks: bool, first: int | None) -> None:  # noqa: FBT001 - as anyio passes it
    suites = dojo.import_part("task_suite.load_suites").get_suites(dojo.VERSION)
    rows = list[tuple[str, ...]]()
    for name in _SUITES:
        suite, plans = suites[name], dojo.read_plans(name)
        tasks = sorted(suite.user_tasks, key=lambda task: int(task.rpartition("_")[2]))
        results = [
            await dojo.judge_task(suite, plans, task, attacks=attacks) for task in tasks[:first]
        ]
        rows.append(dojo.row(name, results))
        for one in results:
            if one.error or not one.is_useful or one.silent:
                print(f"{name} {one.task}: useful {one.is_useful}, silent {one.silent} {one.error}")
    print(table(dojo.HEAD, rows))


def _folder_of(package: str) -> Path:
    """Return where a package of data lies, without importing it.

    Raises:
        SystemExit: it is not installed.
    """
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"there is no package {package!r} here: make dojo")
    return Path(spec.submodule_search_locations[0])


if __name__ == "__main__":
    main()
