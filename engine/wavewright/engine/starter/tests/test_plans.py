"""Every plan of this project is sound, and the word ranking does what it says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


def wavewright(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wavewright.engine.main", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("job", sorted(PROJECT.glob("plans/*.job.yaml")), ids=lambda job: job.name)
def test_the_plan_of_every_job_is_sound(job: Path) -> None:
    checked = wavewright("check", str(job))

    assert checked.returncode == 0, checked.stderr


def test_the_ranking_counts_every_note(tmp_path: Path) -> None:
    ran = wavewright("run", "plans/words.job.yaml", "--output", str(tmp_path))
    [package] = tmp_path.glob("**/package.json")
    result = json.loads(package.read_text(encoding="utf-8"))["result"]

    assert ran.returncode == 0, ran.stderr
    assert result["notes"] == 2
    assert result["words"][0] == {"word": "plan", "count": 3}
