"""The daemon's settings: where they come from, what goes before what, and every fault told at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from wavewright.config import Settings, load_settings
from wavewright.config.sources import DocumentError

OWNERS = "only-the-owner-knows"


def read(folder: Path, text: str = "", **environment: str) -> Settings:
    (folder / "wavewright.yaml").write_text(text)
    return load_settings(folder, environment)


def refused(folder: Path, text: str = "", **environment: str) -> list[str]:
    with pytest.raises(DocumentError) as caught:
        read(folder, text, **environment)
    error = caught.value
    shown = [(one.source.text, one.faults) for one in (error, *error.others)]
    assert OWNERS not in f"{error!s} {error!r} {shown!r}"
    return [fault.message for one in (error, *error.others) for fault in one.faults]


def test_names_are_those_that_the_services_around_know_unless_set(tmp_path: Path) -> None:
    daemon = read(tmp_path, "daemon: {queues: {status: lore.status}, slots: 8}").daemon

    assert (daemon.exchange, daemon.agent, daemon.slots) == ("wavewright.topic", "wavewright", 8)
    assert daemon.queues.intake == "wavewright.jobs"
    assert daemon.queues.status == "lore.status"
    assert daemon.validation.iterations == 0


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        (
            "{queues: {intake: work, status: work}}",
            "'daemon.queues': 'intake' and 'status' are both the queue 'work': name another one",
        ),
        (
            "{queues: {packages: wavewright.jobs}}",
            "'daemon.queues': 'intake' and 'packages' are both the queue 'wavewright.jobs': name another one",
        ),
        (
            "{queues: {dead: user.decisions}}",
            "'daemon.queues': 'dead' and 'decisions' are both the queue 'user.decisions': name another one",
        ),
        (
            "{exchange: all, dead_letter_exchange: all}",
            "'daemon.dead_letter_exchange': 'all' is 'daemon.exchange', too: the queue 'dead' would get each message",
        ),
    ],
)
def test_a_daemon_never_takes_what_it_sends_itself(
    tmp_path: Path, section: str, reason: str
) -> None:
    assert refused(tmp_path, f"daemon: {section}") == [reason]


def test_what_a_daemon_sends_may_go_to_one_queue(tmp_path: Path) -> None:
    queues = read(tmp_path, "daemon: {queues: {packages: out, decisions: out, status: out}}")

    assert queues.daemon.queues.status == "out"


def test_the_environment_goes_before_the_section(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        "daemon: {amqp_url: 'amqp://localhost/one', slots: 2}\nbudgets: {day: {tokens: 5, usd: 1}}",
        WAVEWRIGHT_AMQP_URL="amqp://localhost/two",
        WAVEWRIGHT_SLOTS="9",
        WAVEWRIGHT_DAILY_TOKEN_BUDGET="1000",  # noqa: S106 - it counts tokens
        WAVEWRIGHT_LOG_LEVEL="debug",
        WAVEWRIGHT_HEALTH="[::1]:0",
    )

    assert (settings.daemon.amqp_url, settings.daemon.slots) == ("amqp://localhost/two", 9)
    assert (settings.daemon.log_level, settings.daemon.health) == ("debug", "[::1]:0")
    assert (settings.budgets.day.tokens, settings.budgets.day.usd) == (1000, 1.0)


@pytest.mark.parametrize(
    ("text", "environment", "url", "file"),
    [
        pytest.param("journal: postgresql://db/w", {}, "postgresql://db/w", None, id="the file"),
        pytest.param(
            "journal: mine.sqlite",
            {"WAVEWRIGHT_PG_URL": "postgresql://db/e"},
            "postgresql://db/e",
            "mine.sqlite",
            id="its variable before the file",
        ),
        pytest.param(
            "journal: postgresql://db/w",
            {"WAVEWRIGHT_JOURNAL": "mine.sqlite"},
            None,
            "mine.sqlite",
            id="back again",
        ),
        pytest.param(
            "", {"WAVEWRIGHT_JOURNAL": "postgres:///w"}, "postgres:///w", None, id="the socket"
        ),
    ],
)
def test_the_journal_is_a_file_or_an_address(
    tmp_path: Path, text: str, environment: dict[str, str], url: str | None, file: str | None
) -> None:
    settings = read(tmp_path, text, **environment)

    assert settings.journal_url == url
    assert settings.journal == tmp_path / (file or ".wavewright/journal.sqlite")


def test_passwords_and_keys_are_not_shown(tmp_path: Path) -> None:
    settings = read(
        tmp_path,
        f"journal: postgresql://me:{OWNERS}@db/w\ndaemon: {{amqp_url: 'amqp://me:{OWNERS}@queue/'}}",
        WAVEWRIGHT_HMAC_KEY=OWNERS,
    )

    assert settings.hmac_key == OWNERS
    assert OWNERS not in repr(settings)


def test_every_fault_of_file_and_environment_is_told_at_once(tmp_path: Path) -> None:
    told = refused(
        tmp_path,
        f"daemon: {{amqp_url: 'amqp://guest:{OWNERS}@queue/', slots: 0, queus: {{}}, exchange: amq.topic}}",
        WAVEWRIGHT_PG_URL=f"mysql://me:{OWNERS}@db/w",
        WAVEWRIGHT_DAILY_TOKEN_BUDGET="plenty",  # noqa: S106 - it counts tokens
        WAVEWRIGHT_HMAC_KEY="short",
        WAVEWRIGHT_HEALTH="localhost:70000",
    )

    assert told == [
        (
            "'daemon.amqp_url': the user 'guest' is refused on another machine, since its password is public; "
            "make a user for the daemon and write amqps://USER:PASSWORD@HOST/VHOST"
        ),
        "'daemon.slots' should be at least 1, and is the number 0",
        "'queus' is no field of 'daemon'",
        (
            "'daemon.exchange': a name has 1 to 200 letters, digits and any of '.', '-', '_', ':', and does not begin "
            "with 'amq.'"
        ),
        (
            "the environment variable WAVEWRIGHT_PG_URL: this is no such address; write "
            "postgresql://USER:PASSWORD@HOST/DATABASE"
        ),
        "the environment variable WAVEWRIGHT_DAILY_TOKEN_BUDGET should be a whole number from 1, and is 'plenty'",
        (
            "the environment variable WAVEWRIGHT_HMAC_KEY: a key has at least 16 characters; `openssl rand -hex 32` "
            "makes one"
        ),
        "the environment variable WAVEWRIGHT_HEALTH should be HOST:PORT, and is 'localhost:70000'",
    ]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param(
            f"postgresql://me:12/{OWNERS}@db/w", "written %2F, %3F, %23 or %40", id="slash"
        ),
        pytest.param(
            f"postgresql://me:12?{OWNERS}@db/w", "written %2F, %3F, %23 or %40", id="question"
        ),
        pytest.param(f"postgresql://me:p[{OWNERS}@db/w", "and brackets %5B and %5D", id="bracket"),
        pytest.param(
            f"postgresql:me:{OWNERS}@db/w", "written %2F, %3F, %23 or %40", id="no slashes"
        ),
        pytest.param(
            f"postgresql://me:p/{OWNERS}@db/w", "written %2F, %3F, %23 or %40", id="no port"
        ),
        pytest.param(
            f"postgresql://me:p@{OWNERS}@db/w",
            "the user or password has a character that is not escaped",
            id="at",
        ),
        pytest.param("postgresql://one:5432,two:x/w", "this is no such address", id="second port"),
        pytest.param("postgresql:w", "this is no such address", id="no host"),
    ],
)
def test_an_address_that_would_be_read_in_another_way_than_it_was_meant_is_refused(
    tmp_path: Path, url: str, reason: str
) -> None:
    (told,) = refused(tmp_path, "", WAVEWRIGHT_PG_URL=url)

    assert told.startswith("the environment variable WAVEWRIGHT_PG_URL: ")
    assert reason in told
    assert OWNERS not in told


def test_a_key_of_signatures_in_the_file_is_refused_without_being_repeated(tmp_path: Path) -> None:
    assert refused(tmp_path, f"daemon:\n  hmac_key: {OWNERS}\n") == [
        "'hmac_key' is no field of 'daemon'"
    ]


@pytest.mark.parametrize(
    "url",
    [
        "amqp://localhost",
        "amqp://127.0.0.1:5673/vhost",
        "amqp://guest:guest@[::1]/",
        "amqps://svc:pw@queue.example:5671/lore?heartbeat=10",
        "amqp://svc@queue",
        "amqp://svc:p@w@queue",
    ],
)
def test_an_address_of_a_broker_is_taken(tmp_path: Path, url: str) -> None:
    assert read(tmp_path, WAVEWRIGHT_AMQP_URL=url).daemon.amqp_url == url


@pytest.mark.parametrize(
    "url",
    [
        "queue.example",
        "http://queue/",
        "amqp:///vhost",
        "amqp://me:pw@queue:port/",
        "amqp://[queue/",
        "amqp://queue/",
    ],
)
def test_what_is_no_address_of_a_broker_is_refused(tmp_path: Path, url: str) -> None:
    assert len(refused(tmp_path, WAVEWRIGHT_AMQP_URL=url)) == 1


def test_ids_are_remembered_longer_than_a_message_may_be_old(tmp_path: Path) -> None:
    told = refused(tmp_path, "daemon: {max_age: 60, skew: 5, remember: 64.5}")

    assert told == [
        "'daemon.remember': an id is remembered for 65 seconds at least, max_age and skew together"
    ]
    assert (
        read(tmp_path, "daemon: {max_age: 60, skew: 5, remember: 65}").daemon.remembered_for == 65
    )
    assert read(tmp_path, "daemon: {max_age: 60, skew: 5}").daemon.remembered_for == 65 + 86_400
