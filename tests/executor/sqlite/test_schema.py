"""A journal of another format is refused and left as it is."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from wavewright.executor.sqlite.budget_store import SqliteBudgetStore
from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.sqlite.reader import JournalReader
from wavewright.executor.sqlite.schema import FORMAT
from wavewright.executor.store.errors import JournalNotOpened


@pytest.mark.parametrize(
    ("step", "age", "hint"), [(1, "a newer", "upgrade"), (-1, "an older", "the release")]
)
@pytest.mark.parametrize("opened", [SqliteEventStore, SqliteBudgetStore, JournalReader.open])
def test_a_file_of_another_format_is_refused_and_left_as_it_is(
    tmp_path: Path,
    opened: Callable[[Path], object],
    step: int,
    age: str,
    hint: str,
) -> None:
    path = tmp_path / "journal.sqlite"
    SqliteEventStore(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + step}")
    copy = shutil.copy(path, path.with_suffix(".copy"))

    with pytest.raises(JournalNotOpened) as caught:
        opened(path)

    assert caught.value.message == (
        f"the journal has format {FORMAT + step}, made by {age} wavewright; this one reads format {FORMAT}"
    )
    assert hint in str(caught.value.hint)
    assert path.read_bytes() == Path(copy).read_bytes()
