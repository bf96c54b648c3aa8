"""Settings of notices, as a settings file gives them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from wavewright.config import Settings, load_settings
from wavewright.config.sources import DocumentError


def load(folder: Path, way: str) -> Settings:
    (folder / "wavewright.yaml").write_text(f"notify: {{ops: {{on: [run_failed], {way}}}}}\n")
    return load_settings(folder, {})


@pytest.mark.parametrize(
    ("way", "scheme"),
    [
        ("webhook: hooks.example/T0/secret-part", "https://HOST or http://HOST"),
        ("webhook: 'ftp://hooks.example/T0/secret-part'", "https://HOST or http://HOST"),
        (
            "mail: {server: 'ann:secret-part@mail.example', sender: a@b.example, to: [c@d.example]}",
            "smtps://HOST or starttls://HOST or smtp://HOST",
        ),
        (
            "mail: {server: 'https://secret-part.example', sender: a@b.example, to: [c@d.example]}",
            "smtps://HOST or starttls://HOST or smtp://HOST",
        ),
    ],
)
def test_an_address_to_which_nothing_can_be_sent_is_refused_without_being_repeated(
    tmp_path: Path, way: str, scheme: str
) -> None:
    with pytest.raises(DocumentError) as caught:
        load(tmp_path, way)

    assert f"write {scheme}" in str(caught.value)
    assert "secret-part" not in str(caught.value)


@pytest.mark.parametrize(
    "way",
    [
        "webhook: 'HTTPS://hooks.example/T0'",
        "webhook: 'http://127.0.0.1:8080'",
        "webhook: '${env:ONCALL_URL}'",
        "mail: {server: 'starttls://${env:USER_AT_HOST}', sender: a@b.example, to: [c@d.example]}",
        "mail: {server: '${env:SMTP_URL}', sender: a@b.example, to: [c@d.example]}",
        "apprise: 'mailto://ann:${env:PASSWORD}@example.org'",
        "apprise: 'slack://${env:SLACK_KEYS}/#general'",
        "apprise: 'ntfys://ntfy.example.org/wavewright-alerts-2026'",
        "apprise: 'ntfys://internalmailserver01/alerts'",
        "apprise: 'ntfys://ntfy.example.org/TheNewsOfTheDayForTheTeam'",
        "apprise: 'ntfys://office365relay01/alerts2026production'",
        "apprise: 'mattermosts://internalMailServer01/${env:KEY}'",
    ],
)
def test_an_address_or_a_variable_that_may_hold_one_is_taken(tmp_path: Path, way: str) -> None:
    assert set(load(tmp_path, way).notify) == {"ops"}


@pytest.mark.parametrize(
    "way",
    [
        "mail: {server: 'smtps://ann:hunter2@mail.example', sender: a@b.example, to: [c@d.example]}",
        "webhook: 'https://ann:hunter2@hooks.example/'",
        "apprise: 'mailtos://ann:hunter2@mail.example'",
        "apprise: 'slack://T1JJ3T3L2/A1BRTD4JD/hunter2TIiajkdnlazkcOX'",
        "apprise: 'ntfys://ntfy.example.org/hunter2q9d2vw8zk4'",
        "apprise: 'discord://123456789012345678/hunterIWnrbVqPxDkQzLmYtSoeUaGjXcZhKwFpQrTs'",
        "apprise: 'msteams://hunter2/8b799edf-6f98-4d3a-9be7-2862fb4e5752'",
        "apprise: 'msteams://hunter2/8B799EDF-6F98-4D3A-9BE7-2862FB4E5752'",
    ],
)
def test_a_secret_in_an_address_is_refused_without_being_repeated(tmp_path: Path, way: str) -> None:
    with pytest.raises(DocumentError, match="a secret stands in this address") as caught:
        load(tmp_path, way)

    assert "hunter" not in str(caught.value)
    in_a_variable = re.sub(
        r"hunter[^@'/]*|8b799edf[-\w]*", "${env:PASSWORD}", way, flags=re.IGNORECASE
    )
    assert load(tmp_path, in_a_variable).notify
