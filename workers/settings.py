"""All settings, built once, validated, frozen and passed on.

Read from `sluice.toml` (`workers/data_dir.py` says where it is looked for), then overridden by `SLUICE_*` variables
(`SLUICE_HTTP_PORT=8801`, `SLUICE_CRAWL__ENABLED=true`), or by files of secrets that are named as these.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    InitSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from sluice.contracts.base import FIXED, Value
from sluice.contracts.errors import InvalidSetting
from sluice.contracts.event import Queue
from sluice.evaluation.chat_endpoint import JudgeSettings
from sluice.gate.settings import BudgetSettings, DefenceSettings, GateSettings
from sluice.graph.settings import GraphSettings, address_of
from sluice.index.settings import IndexSettings, ObjectStoreSettings, QdrantSettings, QuerySettings, RerankSettings
from sluice.ingest.egress.rules import unsaid_entry
from sluice.ingest.settings import (
    ChunkSettings,
    CrawlSettings,
    EgressSettings,
    EmbedSettings,
    FreshnessSettings,
    SearchSettings,
)
from sluice.memory.config import MemorySettings
from sluice.otel.settings import TelemetrySettings
from sluice.trust.settings import TrustSettings
from sluice.workers.data_dir import CONFIG_FILE, CONFIG_VARIABLE, INSTANCE_FILE, config_file, default_data_dir
from sluice.workers.setting_names import (
    UNKNOWN,
    constants_of,
    given_variables,
    is_in,
    problems,
    read_flags,
    read_graph_server,
    read_secrets,
    remedy_of,
    unknown_variables,
    variable_of,
)

BROKER_SCHEMES = frozenset({"redis", "rediss", "unix"})
"""URL schemes of a Redis or Valkey: plain, with TLS, by a socket of this machine."""
WAKE_UP_SCHEMES = frozenset({"amqp", "amqps"})
"""URL schemes of a RabbitMQ: plain, with TLS."""


Origin = Annotated[str, Field(pattern=r"^https?://[A-Za-z0-9.:\[\]-]+$", max_length=300)]
"""Scheme, host and port of a web page, as a browser names it in `Origin`."""


class PoolSettings(Value):
    """Number of events that each stage handles at once: by threads of one process in gate, search, crawl and query, by
    a process each in the others. At 0 this instance wants no worker of the stage. Also the
    stages that share a process, and the limits at which one is replaced."""

    together: tuple[tuple[Queue, ...], ...] = (("gate", "query"), ("search", "index", "graph"))
    """Stages that run in one process each: light ones, whose memory is mostly the code that they share. `[]` parts all.
    Questions have a process of their own, which no indexing slows; crawling has one for the sake of its browser,
    embedding as its model uses every core, and chunk, which reads hostile bytes, has processes by itself."""
    gate: Annotated[int, Field(ge=0)] = 4
    search: Annotated[int, Field(ge=0)] = 4
    crawl: Annotated[int, Field(ge=0)] = 4
    chunk: Annotated[int, Field(ge=0)] = 2
    """Two, so that a document that is slow to read, or made to be, does not hold up the next one."""
    embed: Annotated[int, Field(ge=0)] = 1
    index: Annotated[int, Field(ge=0)] = 1
    query: Annotated[int, Field(ge=0)] = 4
    graph: Annotated[int, Field(ge=0)] = 1
    max_memory_mb: Annotated[int, FIXED] = 3_000
    """Memory of its own (mapped files not counted) above which `sluice up` lets a worker finish and starts it anew, and
    the same again for its browser. A worker in order takes 0.1 to 0.3 GB, a browser 0.15 for each page: ten times that
    is a leak, and less than that might be a large page."""
    stop_seconds: Annotated[float, Field(ge=0)] = 3.0
    """Seconds that events in hand may take to finish once a worker is to end; what takes longer is released and
    repeated, as after any interruption. Few events hold more than a second of work. Where workers come and go by load,
    as long as an event may take (`delivery.event_timeout_seconds`), or pages under way are fetched again."""
    max_tasks_per_child: Annotated[int, Field(ge=1)] | None = None
    """Events after which a child of the chunk pool is replaced. Not set: only when it has grown too large."""

    @field_validator("together")
    @classmethod
    def _can_share(cls, together: tuple[tuple[Queue, ...], ...]) -> tuple[tuple[Queue, ...], ...]:
        stages = [stage for group in together for stage in group]
        if len(set(stages)) < len(stages) or "chunk" in stages:
            raise ValueError("each stage shares one process at most, and chunk, which reads hostile bytes, none")
        return together


class McpSettings(Value):
    """The door for agents over MCP, at `/mcp` of the HTTP interface. Its library is imported with the first request."""

    enabled: bool = True
    """Whether there is one. It takes the keys of the HTTP interface."""
    stateless: bool = False
    """Whether no sessions are kept, for several replicas behind one address. A host of an older version of the protocol
    then cancels a call by hanging up alone."""


class DeliverySettings(Value):
    """The delivery guarantee's clocks."""

    lease_seconds: Annotated[float, Field(gt=0)] = 15.0
    """Silence of a worker after which its claims are free again; twice that in the stages that work on documents."""
    max_deliveries: Annotated[int, Field(ge=1)] = 3
    """Deaths of a worker on one event after which the event is quarantined as poison."""
    retry_base_seconds: Annotated[float, Field(gt=0)] = 1.0
    """Ceiling of the pause before a second try; it doubles with every further one."""
    retry_max_seconds: Annotated[float, FIXED] = 60.0
    """Longest pause between two tries."""
    event_timeout_seconds: Annotated[float, Field(gt=0)] = 300.0
    """Longest that one event may take. A worker in which one takes longer finishes its others, ends itself and is
    started anew."""
    deaf_after_seconds: Annotated[float, Field(ge=5)] = 30.0
    """Longest time that a worker may take nothing from a queue that is not empty, or a process give no sign of life,
    before it is started anew. Longer than any pause of a healthy one: loading a model takes a few seconds."""
    max_ready_events: Annotated[int, Field(ge=1)] = 50_000
    """Events that may wait in one stage; beyond, requests that would add to them are refused until later. At a hundred
    a second they are eight minutes of work: who comes later is served sooner elsewhere."""
    max_ready_events_per_lane: Annotated[int, Field(ge=1)] = 20_000
    """As max_ready_events, of one API key (or of one corpus, where there is no key): one feeder cannot fill a stage
    to the exclusion of others."""


class BackupSettings(Value):
    """The nightly backup, which is verified each time. A reconciler takes it, where `to` is set."""

    to: str | None = None
    """Where to: a folder, or the URL of an object store's, like s3://bucket/backups/. What is old there, its owner
    removes."""
    at: Annotated[str, Field(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")] = "03:00"
    """When, by UTC: it takes a processor and the disk for some minutes."""
    recipient: str | None = None
    """Public key of age (age1…) or SSH that backups are encrypted to. Without one they hold texts as they are, and no
    secrets."""


class _SettingsFile(TomlConfigSettingsSource):
    """The settings of `sluice.toml`. A relative data directory in it is relative to the file's folder."""

    def __call__(self) -> dict[str, Any]:
        values = super().__call__()
        if isinstance(named := values.get("data_dir"), str) and self.toml_file_path:
            values["data_dir"] = str(Path(str(self.toml_file_path)).absolute().parent / Path(named).expanduser())
        return values


class _SecretFiles(EnvSettingsSource):
    """The settings that files of secrets hold, as if each were a variable."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        return {name.lower(): value for name, value in read_secrets(os.environ).items()}


class Settings(BaseSettings):
    """Every setting of one Sluice instance."""

    model_config = SettingsConfigDict(
        env_prefix="SLUICE_",
        env_nested_delimiter="__",
        frozen=True,
        extra="forbid",
        nested_model_default_partial_update=True,
    )

    data_dir: Path = Field(default_factory=default_data_dir)
    """Everything this instance keeps: ledger, journal, blobs, snapshots, spans, models. A relative path belongs to the
    folder of the file that names it. By default `sluice-data` in this folder or in one above, else
    `~/.local/share/sluice`."""
    instance: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = "sluice"
    """Prefix of every broker key, so that two instances can share one broker."""
    broker_url: str | None = None
    """A Redis or Valkey URL; without one `sluice up` runs an embedded Valkey."""
    wake_up_url: str | None = None
    """URL of a RabbitMQ that carries wake-ups to the workers; without one Redis or Valkey does, as all else."""
    ledger_url: str | None = None
    """An SQLAlchemy URL; without one, SQLite in the data directory."""
    signing_key: SecretStr | None = None
    """The secret that signs cursors and sign-ins and seals the secrets of webhooks, as 64 hexadecimal digits. Without
    one it is made once in the data directory; machines that share an object store need the same."""
    http_host: str = "127.0.0.1"
    """Address that the HTTP interface listens on; any other than this machine's own needs API keys."""
    http_port: Annotated[int, Field(ge=1, le=65_535)] = 8080
    """Port of the HTTP interface."""
    max_request_bytes: Annotated[int, FIXED] = 32_000_000
    """Largest request body: a batch of 1,000 documents of 30 kB."""
    max_upload_bytes: Annotated[int, FIXED] = 256_000_000
    """Largest request of `/v1/uploads`, which is streamed to the disk: an archive of the most that is unpacked."""
    require_api_key: bool | None = None
    """Whether requests from this machine need an API key. true: always. false: only while a key is in force. Not set:
    once a key was made, also after it was revoked. From other machines a key is always needed."""
    cors_origins: tuple[Origin, ...] = ()
    """Origins whose web pages may read and write here from a browser, as `https://console.example.com`. Where no key is
    needed they may do everything."""
    requests_per_minute: Annotated[int, Field(ge=0)] = 0
    """Requests that each API key may send in a minute, unless the key has its own limit; 0: as many as it likes. What
    this machine's own user sends without a key is not counted."""
    requests_at_once: Annotated[int, Field(ge=1)] = 60
    """Requests that a key may send at once after a pause, at most those of a minute."""
    query_timeout_seconds: Annotated[float, FIXED] = 10.0
    """Longest wait of a direct query for its reply; a healthy one takes milliseconds."""

    gate: GateSettings = GateSettings()
    budget: BudgetSettings = BudgetSettings()
    defence: DefenceSettings = DefenceSettings()
    search: SearchSettings = SearchSettings()
    crawl: CrawlSettings = CrawlSettings()
    freshness: FreshnessSettings = FreshnessSettings()
    egress: EgressSettings = EgressSettings()
    chunk: ChunkSettings = ChunkSettings()
    embed: EmbedSettings = EmbedSettings()
    index: IndexSettings = IndexSettings()
    query: QuerySettings = QuerySettings()
    rerank: RerankSettings = RerankSettings()
    trust: TrustSettings = TrustSettings()
    judge: JudgeSettings = JudgeSettings()
    memory: MemorySettings = MemorySettings()
    graph: GraphSettings = GraphSettings()
    qdrant: QdrantSettings = QdrantSettings()
    object_store: ObjectStoreSettings = ObjectStoreSettings()
    mcp: McpSettings = McpSettings()
    pools: PoolSettings = PoolSettings()
    delivery: DeliverySettings = DeliverySettings()
    backup: BackupSettings = BackupSettings()
    telemetry: TelemetrySettings = TelemetrySettings()

    @field_validator("broker_url")
    @classmethod
    def _broker_speaks_redis(cls, url: str | None) -> str | None:
        if url is not None and url.partition("://")[0] not in BROKER_SCHEMES:
            is_rabbit = url.partition("://")[0] in WAKE_UP_SCHEMES
            instead = "set it as wake_up_url beside a Redis or Valkey" if is_rabbit else "write redis://host:6379/0"
            raise ValueError(f"is the URL of no Redis or Valkey; {instead}, or leave it out")
        return url

    @field_validator("wake_up_url")
    @classmethod
    def _wake_ups_go_to_rabbit(cls, url: str | None) -> str | None:
        if url is not None and url.partition("://")[0] not in WAKE_UP_SCHEMES:
            raise ValueError("is the URL of no RabbitMQ; write amqp://user:password@host:5672/, or leave it out")
        return url

    @field_validator("signing_key")
    @classmethod
    def _signing_key_is_whole(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", key.get_secret_value().strip()):
            raise ValueError("is not 64 hexadecimal digits: `openssl rand -hex 32` prints some")
        return key

    @model_validator(mode="after")
    def _data_dir_is_absolute(self) -> Settings:
        object.__setattr__(self, "data_dir", self.data_dir.expanduser().absolute())
        own = self.data_dir / INSTANCE_FILE
        if "instance" not in self.model_fields_set and own.is_file():
            object.__setattr__(self, "instance", own.read_text().strip())
        return self

    @model_validator(mode="after")
    def _entries_for_services_say_so(self) -> Settings:
        services = {
            "search": self.search.searxng_url,
            "rerank": self.rerank.url,
            "judge": self.judge.model and self.judge.base_url,
            "graph": self.graph.url and "bolt://{}:{}".format(*address_of(self.graph.url)),
        }
        for purpose, url in services.items():
            entry = unsaid_entry((*self.egress.allow, *self.egress.allow_services), url) if url else None
            if entry is not None:
                problem = f"{entry} is a service of this instance, and would be open to every crawled page"
                remedy = f"write {purpose}={entry}; and crawl={entry} besides, if pages may reach it too"
                raise InvalidSetting("egress.allow", problem, remedy)
        return self

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources by precedence: arguments, environment, secrets, `sluice.toml`, Neo4j's variables."""
        file = _SettingsFile(settings_cls, config_file())
        neo4j = InitSettingsSource(settings_cls, read_graph_server(os.environ))
        return init_settings, env_settings, _SecretFiles(settings_cls), file, neo4j

    @property
    def ledger_location(self) -> str:
        """The ledger's SQLAlchemy URL."""
        return self.ledger_url or f"sqlite:///{self.own_ledger}"

    @property
    def own_ledger(self) -> Path:
        """The ledger's SQLite file in the data directory, which is used where `ledger_url` names no other."""
        return self.data_dir / "ledger.sqlite"

    @property
    def broker_location(self) -> str:
        """The URL given, or the embedded broker's. Raises `InvalidSetting` if none is given and none was started."""
        if self.broker_url:
            return self.broker_url
        port_file = self.data_dir / "broker.url"
        if not port_file.exists():
            raise InvalidSetting("broker_url", "not set, and no embedded broker runs", "start `sluice up` first")
        return port_file.read_text().strip()

    @property
    def index_root(self) -> Path:
        """The folder that holds one folder per corpus."""
        return self.data_dir / "index"

    @property
    def graph_root(self) -> Path:
        """The folder that holds one folder per corpus that has a graph."""
        return self.data_dir / "graph"

    @property
    def graph_hindrance(self) -> str:
        """Reason why the settings keep searches from using the graph; empty if they do not."""
        if self.index.engine != "local":
            return f"index.engine is {self.index.engine}"
        if not self.graph.enabled:
            return "graph.enabled is false"
        return "" if self.graph.in_retrieval else "graph.in_retrieval is false"

    @property
    def model_dir(self) -> Path:
        """Folder of the local embedding model's files."""
        return self.embed.model_dir or self.data_dir / "models"


def load_settings(**overrides: Any) -> Settings:
    """Return the settings of this process.

    Raises:
        InvalidSetting: a value cannot be used or a name is unknown (names each such setting and its remedy), or a
            `FEATURE_*` variable is neither true nor false.
    """
    config = os.environ.get(CONFIG_VARIABLE)
    if config and not Path(config).is_file():
        raise InvalidSetting(CONFIG_VARIABLE, f"no file {config}", "run `sluice init` to write one")
    read_flags(os.environ)
    wrong = {
        name: InvalidSetting(variable_of(name), "is no setting", remedy_of(name, Settings, variable_of))
        for name in unknown_variables(Settings, given_variables())
        if "." in name or name in constants_of(Settings)
    }
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        for name, problem in problems(error):
            wrong.setdefault(name, _wrong(name, problem))
        raise _together(list(wrong.values())) from error
    except SettingsError as error:
        raise InvalidSetting(
            ", ".join(_variables_without_json()), "is no JSON", 'lists are written as JSON, for instance ["searxng"]'
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(config or CONFIG_FILE, f"no TOML: {error}", "mend it, or write a new one") from error
    path = config_file()
    file = tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}
    for name in constants_of(Settings):
        if is_in(file, name):
            wrong[name] = _wrong(name, UNKNOWN)
    if wrong:
        raise _together(list(wrong.values()))
    return settings


def stray_variables() -> list[str]:
    """Return a sentence for each `SLUICE_*` variable that sets nothing. It may be another program's: it is no error."""
    return [
        f"{variable_of(name)} is no setting and was ignored: {remedy_of(name, Settings, variable_of)}"
        for name in unknown_variables(Settings, given_variables())
        if "." not in name and name not in constants_of(Settings)
    ]


def _wrong(name: str, problem: str) -> InvalidSetting:
    """Return the error for one setting, named as it was set: by its variable, or in the file."""
    is_variable = variable_of(name) in given_variables()
    if problem == UNKNOWN:
        told = variable_of if is_variable else str
        return InvalidSetting(told(name), "is no setting", remedy_of(name, Settings, told))
    where = variable_of(name) if is_variable else f"{name} in {CONFIG_FILE} or {variable_of(name)}"
    return InvalidSetting(name, problem, f"set {where}")


class InvalidSettings(InvalidSetting):
    """Several settings whose values cannot be used."""

    def __init__(self, each: list[InvalidSetting]) -> None:
        self.each = each
        super().__init__("settings", "\n".join([f"{len(each)} cannot be used", *(f"  {one}" for one in each)]))


def _together(wrong: list[InvalidSetting]) -> InvalidSetting:
    return wrong[0] if len(wrong) == 1 else InvalidSettings(wrong)


def _variables_without_json() -> Iterator[str]:
    """Yield each variable that cannot be read by itself: pydantic's message names only its section."""
    source = EnvSettingsSource(Settings)
    for name, value in sorted(given_variables().items()):
        source.env_vars = {name.lower(): value}
        try:
            source()
        except SettingsError:
            yield name.upper()


def environment_of(settings: Settings) -> Mapping[str, str]:
    """Return the variables that make a child process read the same settings."""
    return {
        "SLUICE_DATA_DIR": str(settings.data_dir),
        "SLUICE_BROKER_URL": settings.broker_location,
        **({"SLUICE_WAKE_UP_URL": settings.wake_up_url} if settings.wake_up_url else {}),
        "SLUICE_LEDGER_URL": settings.ledger_location,
        "SLUICE_HTTP_PORT": str(settings.http_port),
        "SLUICE_HTTP_HOST": settings.http_host,
        **{f"SLUICE_POOLS__{name.upper()}": str(size) for name, size in settings.pools if size is not None},
    }
