"""Packs: found by entry point, imported when needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from wavewright.planner.types import JsonObject
from wavewright.tools import PackError, load_pack, pack_names, pack_templates
from wavewright.tools.packs import pack_settings_schema

EQUITIES = {
    "fetch_stock_data",
    "fetch_index_data",
    "fetch_announcements",
    "search_web",
    "analyze_summary",
}


def test_the_equities_pack_brings_its_five_tools_and_its_template() -> None:
    pack = load_pack("equities", {"prices": "prices"}, Path("/project"))

    assert {tool.signature.name for tool in pack.tools} == EQUITIES


def test_the_text_pack_brings_workers_and_takes_no_settings() -> None:
    pack = load_pack("text")

    assert pack.tools == ()
    assert pack.tool_names == {"summarize_content", "extract_records", "cross_reference"}
    with pytest.raises(PackError, match=r"setting 'text\.depth' is not known"):
        load_pack("text", {"depth": 3})


def test_packs_are_named_without_being_imported() -> None:
    code = (
        "import sys; from wavewright.tools import pack_names; names = pack_names();"
        "assert 'equities' in names; "
        "assert not [m for m in sys.modules if m.startswith('wavewright.packs.equities')]"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_pack_is_described_without_its_heavy_libraries() -> None:
    code = (
        "import sys; from wavewright.tools import load_pack;"
        "load_pack('equities', {'prices': 'x'}); load_pack('text');"
        "heavy = {'pandas', 'numpy', 'pyarrow', 'httpx', 'vega_datasets', 'networkx', 'jinja2', 'pydantic_ai'};"
        "heavy &= set(sys.modules);"
        "assert not heavy, heavy"
    )

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_pack_brings_the_goal_templates_in_its_folder() -> None:
    templates = pack_templates()

    assert templates["stock_analysis"].is_file()
    assert "no_such_template" not in templates


def test_an_unknown_pack_is_refused_with_those_there_are() -> None:
    with pytest.raises(PackError, match="no pack is called 'equites'") as refused:
        load_pack("equites")

    assert "'equities'" in (refused.value.hint or "")
    assert "equities" in pack_names()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        pytest.param({"price": "x"}, "'price' is no field", id="unknown field"),
        pytest.param(
            {"prices": {"provider": "nobody"}}, "'prices.provider'", id="unknown provider"
        ),
        pytest.param({"currency": "dollars"}, "'currency'", id="currency"),
        pytest.param({"search": {"provider": "nobody"}}, "'search.provider'", id="search provider"),
        pytest.param({"indices": {"X": {"codes": []}}}, "'indices.X.codes'", id="empty basket"),
    ],
)
def test_wrong_settings_are_named_by_their_path(settings: JsonObject, message: str) -> None:
    with pytest.raises(PackError, match=message):
        load_pack("equities", settings)


def _install(folder: Path, code: str) -> None:
    """Install the pack `meadow`, whose module has this code, in a folder."""
    (folder / "meadow_pack.py").write_text(code, encoding="utf-8")
    package = folder / "meadow-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: meadow\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[wavewright.packs]\nmeadow = meadow_pack:pack\n")


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        pytest.param(
            "def pack(settings, root):\n    return settings['acres']\n",
            "pack 'meadow' fails: KeyError: 'acres'",
            "meadow_pack.py:2",
            id="its function raises",
        ),
        pytest.param(
            "from wavewright.tools import validated_settings\n"
            "def pack(settings, root):\n    return validated_settings(dict, settings, 'meadow')\n",
            "pack 'meadow' fails: AttributeError: 'dict' object has no attribute 'model_validate'",
            "meadow_pack.py:3",
            id="it calls wavewright wrongly",
        ),
        pytest.param(
            "def pack(settings, root):\n    pass\n",
            "its function returns 'NoneType' and no `Pack`",
            "return Pack(",
            id="it returns nothing",
        ),
        pytest.param(
            "ACRES = 1 / 0\n",
            "pack 'meadow' cannot be imported: ZeroDivisionError",
            "meadow_pack.py:1",
            id="its module raises",
        ),
        pytest.param(
            "def pack(:\n",
            "pack 'meadow' cannot be imported: SyntaxError",
            "meadow_pack.py:1",
            id="its module is no Python",
        ),
        pytest.param(
            "import no_such_library\n",
            "pack 'meadow' cannot be imported: ModuleNotFoundError: No module named 'no_such_library'",
            "install the package",
            id="a library is missing",
        ),
    ],
)
def test_a_pack_that_fails_is_named_with_the_line_in_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str, hint: str
) -> None:
    _install(tmp_path, code)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "meadow_pack", raising=False)

    with pytest.raises(PackError) as refused:
        load_pack("meadow", {})

    assert message in str(refused.value)
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize("folder", ["project", "site-packages"])
def test_what_a_library_raises_is_shown_at_the_line_of_the_pack_that_calls_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    (tmp_path / folder).mkdir()
    code = "import json\ndef pack(settings, root):\n    return json.loads('{')\n"
    _install(tmp_path / folder, code)
    monkeypatch.setattr(sys, "path", [str(tmp_path / folder), *sys.path])
    monkeypatch.delitem(sys.modules, "meadow_pack", raising=False)

    with pytest.raises(PackError, match="pack 'meadow' fails: JSONDecodeError") as refused:
        load_pack("meadow", {})

    assert (refused.value.hint or "").endswith("meadow_pack.py:3")


@pytest.mark.parametrize("code", ["ACRES = 1 / 0\n", "def model(:\n", "raise SystemExit\n"])
def test_settings_of_a_pack_that_cannot_be_imported_are_named_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    _install(tmp_path, "SETTINGS = 'meadow_settings:Meadow'\ndef pack(settings, root): ...\n")
    (tmp_path / "meadow_settings.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "meadow_pack", raising=False)

    with pytest.raises(PackError, match="pack 'meadow' cannot be imported") as refused:
        pack_settings_schema("meadow")

    assert "meadow_settings.py:1" in (refused.value.hint or "")
