from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config import Settings, load_settings
from wavewright.config.environment import VARIABLES, EnvironmentVariable
from wavewright.config.settings import SettingsFile, settings_schema
from wavewright.config.sources import DocumentError

KEY = "sk-only-the-owner-may-see-this"


def project(folder: Path, text: str) -> Path:
    (folder / "wavewright.yaml").write_text(text)
    return folder


Told = tuple[str, str, tuple[int, int] | None, str | None]


def faults(folder: Path, environment: dict[str, str] | None = None) -> list[Told]:
    with pytest.raises(DocumentError) as caught:
        load_settings(folder, environment or {})
    source = caught.value.source
    return [
        (one.kind, one.message, source.position(one.span.start) if one.span else None, one.hint)
        for one in caught.value.faults
    ]


def test_without_a_file_the_working_directory_is_the_project(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}) == Settings(
        root=tmp_path,
        state_dir=tmp_path / ".wavewright",
        journal=tmp_path / ".wavewright" / "journal.sqlite",
        output_dir=tmp_path / ".wavewright" / "runs",
        prompts=(tmp_path / "prompts",),
        workers=(tmp_path / "config/workers",),
        agents=(tmp_path / "config/agents",),
        templates=(tmp_path / "config/goals",),
    )


def test_the_file_is_found_upwards_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    project(tmp_path, "state_dir: state\noutput_dir: ../out\ntemplates: [goals]\n")
    inner = tmp_path / "plans" / "deep"
    inner.mkdir(parents=True)
    settings = load_settings(inner, {})

    assert settings.root == tmp_path
    assert settings.file == tmp_path / "wavewright.yaml"
    assert settings.journal == tmp_path / "state" / "journal.sqlite"
    assert settings.output_dir == tmp_path / "../out"
    assert settings.templates == (tmp_path / "goals",)


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    project(
        tmp_path, "state_dir: state\nschedule: waves\nconcurrency: 4\nmodel: a:b\nretention: 30d\n"
    )
    given = {
        "WAVEWRIGHT_STATE": "/var/wavewright",
        "WAVEWRIGHT_SCHEDULE": "dataflow",
        "WAVEWRIGHT_CONCURRENCY": "8",
        "WAVEWRIGHT_RETENTION": "12h",
        "WAVEWRIGHT_MODEL": "c:d",
        "WAVEWRIGHT_OUTPUT": "out",
        "WAVEWRIGHT_JOURNAL": "",
    }
    settings = load_settings(tmp_path, given)

    assert (settings.schedule, settings.concurrency, settings.model) == ("dataflow", 8, "c:d")
    assert settings.retention == 12 * 3600
    assert settings.journal == Path("/var/wavewright/journal.sqlite")
    assert settings.output_dir == tmp_path / "out"


def test_packs_and_tools_are_handed_on_as_they_are(tmp_path: Path) -> None:
    project(
        tmp_path,
        "packs:\n  equities: {prices: prices/}\ntools:\n  - tools/mine.py\n  - module: my.tools\n",
    )
    settings = load_settings(tmp_path, {})

    assert settings.packs == {"equities": {"prices": "prices/"}}
    assert settings.tools == ("tools/mine.py", {"module": "my.tools"})


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "\n\n"])
def test_a_file_that_says_nothing_is_no_fault(tmp_path: Path, text: str) -> None:
    assert load_settings(project(tmp_path, text), {}).schedule is None


def test_every_fault_names_its_line_and_its_mend(tmp_path: Path) -> None:
    project(
        tmp_path,
        "concurency: 3\nschedule: wave\nstate_dir: 7\ntools: one.py\nversion: 1\nnotify: [mail]\n",
    )

    assert faults(tmp_path) == [
        (
            "unknown_field",
            "'concurency' is no field of the settings file",
            (1, 1),
            "did you mean 'concurrency'?",
        ),
        (
            "bad_value",
            "'schedule' should be 'waves' or 'dataflow', and is the string 'wave'",
            (2, 11),
            "did you mean 'waves'?",
        ),
        (
            "wrong_type",
            "'state_dir' should be a string, and is the number 7",
            (3, 12),
            'put it in quotes: "7"',
        ),
        (
            "wrong_type",
            "'tools' should be a list, and is the string 'one.py'",
            (4, 8),
            'write a list: ["one.py"]',
        ),
        (
            "wrong_type",
            "'notify' should be an object, and is a list",
            (6, 9),
            "write an object, with a name for each of its entries: {NAME: …}",
        ),
    ]


def test_a_wrong_variable_is_named(tmp_path: Path) -> None:
    given = {"WAVEWRIGHT_CONCURRENCY": "many", "WAVEWRIGHT_SCHEDULE": "fast"}

    assert faults(tmp_path, given) == [
        (
            "bad_value",
            "the environment variable WAVEWRIGHT_SCHEDULE should be 'waves' or 'dataflow', and is 'fast'",
            (1, 21),
            "set it right, or unset WAVEWRIGHT_SCHEDULE",
        ),
        (
            "bad_value",
            "the environment variable WAVEWRIGHT_CONCURRENCY should be a whole number from 1 to 10000, and is 'many'",
            (2, 24),
            "set it right, or unset WAVEWRIGHT_CONCURRENCY",
        ),
    ]


def test_a_broken_file_is_a_fault_with_its_place(tmp_path: Path) -> None:
    project(tmp_path, "tools: [a\nmodel: b\n")

    assert [(kind, place) for kind, _, place, _ in faults(tmp_path)] == [("not_yaml", (2, 6))]


@pytest.mark.parametrize("variable", [each for each in VARIABLES.values() if each.setting], ids=str)
def test_each_variable_but_keys_replaces_a_setting_of_the_file(
    variable: EnvironmentVariable,
) -> None:
    settings: object = SettingsFile()
    for name in variable.setting.split("."):
        settings = getattr(settings, name)

    assert settings is None or isinstance(settings, str | int)


def test_a_model_of_the_environment_is_asked_for_everything(tmp_path: Path) -> None:
    project(tmp_path, "model: anthropic:one\n")

    of_file = load_settings(tmp_path, {})
    of_environment = load_settings(tmp_path, {"WAVEWRIGHT_MODEL": "anthropic:one"})

    assert (of_file.model, of_file.model_is_forced) == ("anthropic:one", False)
    assert (of_environment.model, of_environment.model_is_forced) == ("anthropic:one", True)


def test_the_environment_says_where_models_are_and_what_answers_instead_of_them(
    tmp_path: Path,
) -> None:
    project(
        tmp_path,
        "models: {base_url: 'http://file/v1', cassette: tapes/one.json, cassette_mode: record}\n",
    )
    inner = tmp_path / "plans"
    inner.mkdir()
    given = {
        "WAVEWRIGHT_BASE_URL": "http://environment/v1",
        "WAVEWRIGHT_CASSETTE": "two.json",
        "WAVEWRIGHT_CASSETTE_MODE": "replay",
    }

    of_file = load_settings(inner, {})
    of_environment = load_settings(inner, given)

    assert (of_file.base_url, of_file.cassette) == ("http://file/v1", tmp_path / "tapes/one.json")
    assert of_file.cassette_mode == "record"
    assert (of_environment.base_url, of_environment.cassette) == (
        "http://environment/v1",
        inner / "two.json",
    )
    assert of_environment.cassette_mode == "replay"


def test_the_key_comes_from_the_environment_and_is_shown_nowhere(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {"WAVEWRIGHT_API_KEY": KEY})

    assert settings.api_key == KEY
    assert KEY not in repr(settings)
    assert KEY not in str(settings)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        (f"models:\n  api_key: {KEY}\n", (2, 3), "'api_key' is no field of 'models'"),
        (f"apikey: '{KEY}'\n", (1, 1), "'apikey' is no field of the settings file"),
        (
            f'models: {{"api_key": "{KEY}", attempts: 2}}\n',
            (1, 10),
            "'api_key' is no field of 'models'",
        ),
    ],
)
def test_a_key_in_the_file_is_refused_without_being_repeated(
    tmp_path: Path, text: str, place: tuple[int, int], message: str
) -> None:
    project(tmp_path, text)

    with pytest.raises(DocumentError) as caught:
        load_settings(tmp_path, {})

    assert (
        KEY
        not in f"{caught.value!s} {caught.value!r} {caught.value.source!r} {caught.value.faults!r}"
    )
    assert faults(tmp_path) == [
        (
            "unknown_field",
            message,
            place,
            "a key is read from the environment only: set WAVEWRIGHT_API_KEY",
        ),
    ]


def test_an_error_about_other_variables_does_not_show_the_key(tmp_path: Path) -> None:
    with pytest.raises(DocumentError) as caught:
        load_settings(tmp_path, {"WAVEWRIGHT_API_KEY": KEY, "WAVEWRIGHT_CASSETTE_MODE": "rewind"})

    assert (
        KEY
        not in f"{caught.value!s} {caught.value!r} {caught.value.source!r} {caught.value.faults!r}"
    )
    assert [one.message for one in caught.value.faults] == [
        "the environment variable WAVEWRIGHT_CASSETTE_MODE should be 'replay' or 'record', and is 'rewind'"
    ]


def test_models_and_budgets_are_read_in_full(tmp_path: Path) -> None:
    project(
        tmp_path,
        """
        model: anthropic:claude
        models:
          preferences: {flash: "ollama:small"}
          roles: {judge: "openai:judge"}
          fallbacks: ["openai:other"]
          thinking: {high: max}
          attempt_seconds: 30
          request_seconds: 90.5
          attempts: 2
          providers: {anthropic: {requests_per_minute: 50, concurrency: 4}}
          prices: {small: {input: 0, output: 0.5}}
        budgets:
          run: {tokens: 1000}
          day: {usd: 2}
          recovery_share: 0.1
        """,
    )
    settings = load_settings(tmp_path, {})

    assert settings.models.roles == {"judge": "openai:judge"}
    assert settings.models.providers["anthropic"].concurrency == 4
    assert (settings.models.attempt_seconds, settings.models.request_seconds) == (30.0, 90.5)
    assert [settings.models.call_seconds(clock) for clock in (None, 20.0, 600.0)] == [
        90.5,
        20.0,
        90.5,
    ]
    assert settings.models.prices["small"].output == 0.5
    assert (settings.budgets.run.tokens, settings.budgets.day.usd) == (1000, 2.0)
    assert settings.budgets.job.tokens is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: {attempts: 0}", "'models.attempts' should be at least 1, and is the number 0"),
        ("models: {roles: {boss: 'a:b'}}", "boss"),
        ("budgets: {day: {usd: -1}}", "'budgets.day.usd' should be greater than 0"),
        ("budgets: {week: {usd: 1}}", "'week' is no field of 'budgets'"),
    ],
)
def test_what_models_cannot_be_is_a_fault(tmp_path: Path, text: str, said: str) -> None:
    [fault] = faults(project(tmp_path, text))

    assert said in fault[1]


def test_the_published_schema_describes_every_setting() -> None:
    properties = settings_schema()["properties"]

    assert isinstance(properties, dict)
    assert set(properties) == set(SettingsFile.model_fields)
    assert all(
        "description" in one
        for key, one in properties.items()
        if key != "version" and isinstance(one, dict)
    )
