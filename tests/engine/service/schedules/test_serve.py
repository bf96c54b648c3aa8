"""`wavewright serve`: schedules and page in one process without a broker."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

from tests.support.prepared_command import PipedCommand, run_prepared


def test_the_page_of_serve_is_at_the_address_that_is_printed_with_its_token(
    tmp_path: Path,
) -> None:
    (tmp_path / "wavewright.yaml").write_text("version: 1\n", encoding="utf-8")
    (tmp_path / "digest.yaml").write_text(
        "schedule: {every: 1h}\nplan: {steps: [{id: a, tool: say}]}\n", encoding="utf-8"
    )
    with PipedCommand("serve", folder=tmp_path) as running:
        said = running.stdout.readline()
        address = re.search(r"http://\S+\?token=\S+", said)
        assert address is not None, said
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address[0], timeout=20):
            pass
        place = address[0].partition("?")[0]
        with opener.open(f"{place}schedules", timeout=20) as answer:
            page = answer.read().decode()

    assert "digest.yaml" in page
    assert "every 1h" in page


def test_serve_prints_no_address_where_it_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "wavewright.yaml").write_text(
        "journal: postgresql://127.0.0.1:1/away\n", encoding="utf-8"
    )

    refused = run_prepared("serve", folder=tmp_path)

    assert refused.returncode == 3
    assert "the database cannot be reached" in refused.stderr
    assert refused.stdout == ""
