"""The sections `models`, `budgets` and `daemon` of the settings file.

The file never holds a provider's key: that comes from the environment (`WAVEWRIGHT_API_KEY`, or the
provider's own variable). Neither does it hold the key of signatures; the broker's address belongs
in `WAVEWRIGHT_AMQP_URL` if it holds a password. All values are validated when the settings are
read, so a running daemon never meets an invalid one.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    Field,
    JsonValue,
    ValidationInfo,
    field_validator,
    model_validator,
)

from wavewright.config.value_types import AmqpUrl, AtLeastOne, NonEmpty, PersonName, SettingsModel

RoleName: TypeAlias = Literal["planner", "recovery", "reviewer", "judge", "agent", "worker"]
ThinkingName: TypeAlias = Literal["minimal", "low", "medium", "high"]
Schedule: TypeAlias = Literal["waves", "dataflow"]
CassetteMode: TypeAlias = Literal["replay", "record"]

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=False)]


class ModelProviderSettings(SettingsModel):
    """What one provider lets us do."""

    requests_per_minute: AtLeastOne | None = None
    """Requests begun in any minute; unlimited where absent."""
    concurrency: AtLeastOne | None = None
    """Requests under way at once; unlimited where absent."""


class PriceSettings(SettingsModel):
    """Price of a model that the price list does not know, in US dollars per million tokens."""

    input: Annotated[float, Field(ge=0, strict=False)]
    """Of what a model reads."""
    output: Annotated[float, Field(ge=0, strict=False)]
    """Of what a model writes."""


class ModelsSection(SettingsModel):
    """The section `models` of `wavewright.yaml`."""

    base_url: str | None = Field(default=None, min_length=1)
    """Address of an OpenAI-compatible endpoint, for models named `openai-chat:NAME`."""
    preferences: dict[str, str] = {}
    """Goal's word (`flash`, `pro`, `sonnet`, …) → model name; before the shipped map."""
    roles: dict[RoleName, str] = {}
    """Role → preference or model name, where a role should not ask the default model."""
    fallbacks: list[str] = []
    """Models that are asked in turn where the first gives no answer."""
    thinking: dict[ThinkingName, str] = {}
    """Goal's thinking level → what the provider is told: minimal, low, medium, high, xhigh, max or
    off.
    """
    attempt_seconds: _Positive = 60.0
    """Seconds that one HTTP request may take."""
    request_seconds: _Positive = 180.0
    """Seconds that one model call may take, with its retries and waits; where it is set, the clocks
    of ladders give no more than that, else they take precedence over it.
    """
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """HTTP requests of one model call, the first included; answers of a rate limit count only where
    this is set, else eight of them are waited for.
    """
    providers: dict[str, ModelProviderSettings] = {}
    """Provider → its limits."""
    prices: dict[str, PriceSettings] = {}
    """Model name without provider → price."""
    max_output_tokens: AtLeastOne = 16_000
    """Most tokens of one answer."""
    worker_tokens: AtLeastOne = 50_000
    """Tokens that workers share: an answer of a worker has at most its `token_share` of them."""
    calibration: str | None = Field(default=None, min_length=1)
    """File that says which judge gates may block; without it they only warn."""
    cassette: str | None = Field(default=None, min_length=1)
    """File of recorded answers."""
    cassette_mode: CassetteMode = "replay"
    """`replay` calls no model; `record` calls one for missing answers and records them."""

    def call_seconds(self, clock: float | None) -> float:
        """Return how long a call may take to which its ladder gives so much; None where no ladder
        has a say.

        A `request_seconds` that was set holds beside the ladder's clock; its default gives way to
        it.
        """
        if clock is None:
            return self.request_seconds
        if "request_seconds" in self.model_fields_set:
            return min(clock, self.request_seconds)
        return clock


class FleetSection(SettingsModel):
    """The section `fleet` of `wavewright.yaml`: calls of tools that workers on other machines make."""

    tools: list[NonEmpty] = []
    """Tools whose calls workers make; `*` for all that they can make. Tools with needs always go to
    them.
    """
    heartbeat: Annotated[float, Field(ge=1, le=600, strict=False)] = 10.0
    """Seconds without a heartbeat after which a worker is taken for dead."""


class ReceiptsSection(SettingsModel):
    """The section `receipts` of `wavewright.yaml`: Ed25519 keys in PEM files."""

    private_key: NonEmpty | None = None
    """File of the key that receipts are signed with; unsigned where it is absent."""
    public_key: NonEmpty | None = None
    """File of the key that signatures are checked with; that of the private key where it is absent."""


class PlannerSection(SettingsModel):
    """The section `planner` of `wavewright.yaml`."""

    stream: Literal["auto", "off", "on"] = "auto"
    """Whether steps that only read start while the rest of the plan arrives: `auto` those before
    the first step with another effect, and only where a reading tool is expected to take half a
    second or more; `on` also those after it; `off` none.
    """


class BudgetSettings(SettingsModel):
    """Upper bounds of what models may cost."""

    tokens: AtLeastOne | None = None
    """Read and written, of all calls."""
    usd: _Positive | None = None
    """US dollars; every model that is asked needs a price."""
    calls: AtLeastOne | None = None
    """Requests to models, repeated ones included."""
    seconds: _Positive | None = None
    """Time of model calls, added up."""


class BudgetsSection(SettingsModel):
    """The section `budgets` of `wavewright.yaml`."""

    run: BudgetSettings = BudgetSettings.model_construct()
    """Of one run."""
    job: BudgetSettings = BudgetSettings.model_construct()
    """Of all runs of one job (by its name)."""
    day: BudgetSettings = BudgetSettings.model_construct()
    """Of all runs together, from midnight to midnight UTC."""
    recovery_share: Annotated[float, Field(ge=0, le=0.9, strict=False)] = 0.2
    """Part of the run's budget that only review and recovery may spend."""


LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

MIN_KEY_LENGTH: Final = 16
"""Characters that a key of signatures has at least."""
MAX_NAME_LENGTH: Final = 200
"""Of an exchange or a queue; AMQP allows 255 bytes, and others are made of these."""

DAY_SECONDS: Final = 86_400.0

MAX_PORT: Final = 65_535

_NAME = re.compile(r"[A-Za-z0-9_.:-]+")


def valid_hmac_key(key: str) -> str:
    """Return a key of signatures as it is.

    Raises:
        ValueError: it is so short that it can be guessed.
    """
    if len(key) < MIN_KEY_LENGTH:
        msg = f"a key has at least {MIN_KEY_LENGTH} characters; `openssl rand -hex 32` makes one"
        raise ValueError(msg)
    return key


def valid_host_port(place: str) -> str:
    """Return `HOST:PORT` as it is.

    Raises:
        ValueError: it is no such place.
    """
    host, _, port = place.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > MAX_PORT:
        msg = "a place is HOST:PORT, such as 127.0.0.1:9464; port 0 takes any that is free"
        raise ValueError(msg)
    return place


def _valid_name(name: str) -> str:
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name) or name.startswith("amq."):
        msg = (
            f"a name has 1 to {MAX_NAME_LENGTH} letters, digits and any of '.', '-', '_', ':', "
            "and does not begin with 'amq.'"
        )
        raise ValueError(msg)
    return name


HmacKey: TypeAlias = Annotated[str, AfterValidator(valid_hmac_key)]
Slots: TypeAlias = Annotated[int, Field(ge=1, le=1_000)]
HealthAddress: TypeAlias = Annotated[str, AfterValidator(valid_host_port)]
_BrokerName: TypeAlias = Annotated[str, AfterValidator(_valid_name)]
_Seconds: TypeAlias = Annotated[
    float, Field(gt=0, le=31_536_000, allow_inf_nan=False, strict=False)
]


Role: TypeAlias = Literal["look", "decide", "operate"]
"""What a person may do in the live page: see everything; answer decisions, too; and steer runs and
jobs, too.
"""
_HASH: Final = r"^sha256:[0-9a-f]{64}$"
_HEADER: Final = r"^[A-Za-z0-9-]+$"


def _valid_network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError as error:
        msg = f"an address is one such as 10.0.0.7, or a network such as 10.0.0.0/24 ({error})"
        raise ValueError(msg) from error
    return text


class PersonSettings(SettingsModel):
    """Somebody who may use the live page."""

    token: Annotated[str, Field(pattern=_HASH)] | None = None
    """Hash of the person's token, as `wavewright view --add NAME` writes it; where absent only a
    proxy can say that it is this person.
    """
    role: Role = "decide"
    """What the person may do: `look`, `decide`, or `operate`."""


class TrustedProxySettings(SettingsModel):
    """A proxy that logs people in."""

    addresses: Annotated[list[Annotated[str, AfterValidator(_valid_network)]], Field(min_length=1)]
    """From where its requests come: addresses, or networks such as `10.0.0.0/24`. What others send
    in its headers is not read.
    """
    header: Annotated[str, Field(pattern=_HEADER)] = "X-Forwarded-User"
    """Header that holds the name of the person who is logged in."""
    role: Role | None = "look"
    """What a person may do who is not among `people`; null refuses such people."""


class ViewSection(SettingsModel):
    """The section `view` of `wavewright.yaml`: who may use the live page."""

    people: dict[PersonName, PersonSettings] = {}
    """Who may use it, by name; those with a token sign in with it."""
    proxy: TrustedProxySettings | None = None
    """A proxy that says who somebody is."""


class QueuesSection(SettingsModel):
    """Queues by what they are for; each has a routing key of its own name."""

    intake: _BrokerName = "wavewright.jobs"
    """What the daemon consumes: jobs, verdicts, answers."""
    packages: _BrokerName = "wavewright.packages"
    """Where packages go."""
    decisions: _BrokerName = "user.decisions"
    """Where questions to people go."""
    status: _BrokerName = "job.status"
    """Where the status of jobs is published."""
    dead: _BrokerName = "wavewright.dead"
    """Where dead-lettered messages and jobs end."""

    @model_validator(mode="after")
    def _takes_nothing_it_sends(self) -> Self:
        """Refuse a queue that the daemon reads and writes, and one for what it refuses and for
        anything else; what it publishes may go to one queue.
        """
        names = {name: getattr(self, name) for name in type(self).model_fields}
        for own in ("intake", "dead"):
            for other, queue in names.items():
                if other != own and queue == names[own]:
                    msg = f"{own!r} and {other!r} are both the queue {queue!r}: name another one"
                    raise ValueError(msg)
        return self


class ValidationSection(SettingsModel):
    """Who looks at packages, and how often a job may bring a better one."""

    target_agent: str = Field(default="validator", min_length=1, max_length=128)
    """To whom packages are addressed."""
    iterations: Annotated[int, Field(ge=0, le=10)] = 0
    """Packages of one job, at most; with 0 a job is done when its package is out, and no verdict is
    waited for.
    """
    timeout: (
        Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False, strict=False)] | None
    ) = None
    """Seconds after which a package without a verdict counts as rejected, once its job has nothing
    else to do; packages wait without a limit where absent.
    """


class StandingSection(SettingsModel):
    """A job that the daemon starts by itself, once, and continues in cycles: one target each."""

    start: str = Field(min_length=1, max_length=128)
    """First target; further ones are those that the goal template finds (`targets.expand`)."""
    goal: str = Field(default="", max_length=4_000)
    """What is wanted; the goal template's goal where absent."""
    inputs: dict[str, JsonValue] = {}
    """Inputs of the goal template, such as `game`."""
    depth: Annotated[int, Field(ge=0, le=1_000)] = 1_000
    """Waves of targets after the first."""
    forks: Literal["ask", "all"] = "ask"
    """Where a target has found several others: `ask` a person which is next, or work on `all` wave
    by wave.
    """
    pause: Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False, strict=False)] = 1_800.0
    """Seconds between two cycles."""
    tokens_per_cycle: Annotated[int, Field(ge=1, le=1_000_000_000)] | None = None
    """Tokens that one cycle may use; once they are spent, the job pauses at its next model call and
    continues in the next cycle. No limit where absent.
    """


class MaxLimitsSection(SettingsModel):
    """What a job that was sent may raise limits to; goal templates of the project may go beyond."""

    max_steps: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Steps of a plan."""
    max_waves: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Waves of a plan, one after the other."""
    max_items: Annotated[int, Field(ge=1, le=10_000_000)] = 10_000
    """Items of one `for_each`."""
    concurrency: Annotated[int, Field(ge=1, le=100_000)] = 256
    """Calls of one run at once."""
    at_once: Annotated[int, Field(ge=1, le=100)] = 16
    """Targets of a job whose runs are under way at once."""


class IdentitySettings(SettingsModel):
    """What one sender is known by and may send."""

    user_id: str | None = Field(default=None, min_length=1, max_length=255)
    """The broker's user that it must be, as the broker vouches for it; any where absent."""
    may_send: list[str] = Field(min_length=1)
    """Types of its messages: `job_request`, `validation_result`, `user_decision_response` or one of
    the pack.
    """


class DaemonSection(SettingsModel):
    """The section `daemon` of `wavewright.yaml`."""

    pack: str | None = Field(default=None, min_length=1)
    """Pack whose messages, log events and names of queues are used; the neutral ones where absent.
    """
    role: str | None = Field(default=None, min_length=1)
    """Which of the pack's daemons this is, such as `validator`, where the pack has several; its
    first where absent.
    """
    amqp_url: AmqpUrl | None = Field(default=None, repr=False)
    """Address of the broker, `amqps://USER:PASSWORD@HOST/VHOST`; it belongs in
    `WAVEWRIGHT_AMQP_URL`, for it holds a password. The user `guest` is refused on another machine
    than this one.
    """
    exchange: _BrokerName = "wavewright.topic"
    """Topic exchange of all messages."""
    dead_letter_exchange: _BrokerName = "wavewright.dlx"
    """Dead-letter exchange, of the queue `dead`."""
    queues: QueuesSection = QueuesSection.model_construct()
    """Names of the queues, see below; each has a routing key of its own name."""
    delivery_limit: Annotated[int, Field(ge=1, le=1_000)] = 5
    """Deliveries of one message after which the broker dead-letters it."""
    agent: str = Field(default="wavewright", min_length=1, max_length=128)
    """Name of the daemon in its messages, and to whom messages for it are addressed."""
    slots: Slots = 4
    """Jobs that run at once."""
    priority: Annotated[int, Field(ge=0, le=9)] = 0
    """How urgent jobs are whose message has no header `priority`: 0 to 9, the most urgent. A job that
    waits ages by one level every 20 minutes.
    """
    goal_template: str | None = Field(default=None, min_length=1)
    """Goal template of jobs that bring a goal and no job document."""
    validation: ValidationSection = ValidationSection.model_construct()
    """Who validates packages, see below."""
    decisions: bool = True
    """Whether people answer the questions of its jobs. With `false`, a job fails where it needs a
    person: before its first step where its plan shows it, and patches that need an approval are not
    applied.
    """
    standing: StandingSection | None = None
    """A job that the daemon starts without a request, see below; it needs a `goal_template`."""
    identities: dict[str, IdentitySettings] = {}
    """Sender → what it is known by and may send; where there are none, everybody may send
    everything.
    """
    max_body: Annotated[int, Field(ge=1_024, le=64 * 2**20)] = 2**20
    """Bytes of a message that is received, at most."""
    max_sent: Annotated[int, Field(ge=2**16, le=512 * 2**20)] = 16 * 2**20
    """Bytes of a message that is sent, at most: a job whose package is larger fails. No more than
    the broker's `max_message_size`, which is this from RabbitMQ 4.0 on.
    """
    max_depth: Annotated[int, Field(ge=4, le=256)] = 32
    """How deep the lists and objects of a message may be nested."""
    max_limits: MaxLimitsSection = MaxLimitsSection.model_construct()
    """What a job that was sent may raise the limits of its run to."""
    max_age: _Seconds = 604_800.0
    """Seconds after which a message is too old."""
    skew: _Seconds = 300.0
    """Seconds that a message may come from the future."""
    remember: _Seconds | None = None
    """Seconds for which the ids of messages that were received or published are remembered, to
    recognize repeats, and for which a verdict or an answer waits for what it names; at least
    `max_age` and `skew` together, which with a day are the default.
    """
    stall_limit: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False, strict=False)] = 60.0
    """Seconds for which a step may block the event loop; then the daemon ends with exit code 70,
    and its jobs go on in the next one. A step that waits and holds the interpreter's lock ends it
    after ten times as long.
    """
    health: HealthAddress | None = None
    """`HOST:PORT` of the HTTP endpoints `/live`, `/ready` and `/metrics`; port 0 takes any that is
    free; no endpoints where absent.
    """
    view: HealthAddress | None = None
    """`HOST:PORT` of the live page of runs, jobs and decisions, for the people of the section
    `view` or the token of `WAVEWRIGHT_VIEW_TOKEN`; no page where absent.
    """
    log_level: LogLevel = "info"
    """Lowest level that is logged: `debug`, `info`, `warning` or `error`."""

    @field_validator("dead_letter_exchange")
    @classmethod
    def _gets_dead_letters_alone(cls, exchange: str, about: ValidationInfo) -> str:
        """Refuse the exchange of all messages: the queue `dead` is bound for whatever its exchange
        gets.
        """
        if exchange == about.data.get("exchange"):
            msg = f"{exchange!r} is 'daemon.exchange', too: the queue 'dead' would get each message"
            raise ValueError(msg)
        return exchange

    @field_validator("remember")
    @classmethod
    def _long_enough(cls, seconds: float | None, about: ValidationInfo) -> float | None:
        """Refuse a `remember` period in which an id is forgotten while its message could still be
        accepted.
        """
        # An invalid value of one of them is reported on its own.
        least = about.data.get("max_age", 0.0) + about.data.get("skew", 0.0)
        if seconds is not None and seconds < least:
            msg = f"an id is remembered for {least:g} seconds at least, max_age and skew together"
            raise ValueError(msg)
        return seconds

    @property
    def remembered_for(self) -> float:
        """Seconds for which the ids of messages are remembered."""
        return self.max_age + self.skew + DAY_SECONDS if self.remember is None else self.remember
