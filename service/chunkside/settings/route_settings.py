"""The settings that each route may have its own of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from chunkside.settings.kinds import (
    AbsentStatuses,
    Addressing,
    AutoCacheControl,
    AutoSize,
    AutoSwitch,
    CacheControl,
    Cookies,
    Count,
    Credentials,
    Duration,
    Endpoint,
    File,
    HeaderNames,
    Mode,
    NegativeScope,
    Origins,
    Profile,
    RedirectHosts,
    Region,
    Several,
    Share,
    Switch,
    TargetedNames,
    Texts,
    Timeout,
    UpstreamAuth,
)
from chunkside.settings.profiles import with_profile


class RouteSettings(BaseModel):
    """What a route says of its own, or all that holds for it. Durations are seconds, sizes
    bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=False)

    @model_validator(mode="before")
    @classmethod
    def _with_profile(cls, given: object) -> object:
        return with_profile(given, cls.model_fields)

    profile: Profile = Field(
        default="default",
        description="A set of defaults, under whatever is set beside it. `strict`: RFC 9111 to the "
        "letter, no lifetimes but the origin's; `archive`: for data that seldom changes",
    )
    mode: Mode = Field(
        default="cache",
        description="`cache`, or `observe`: the origin answers everything, while the cache stores "
        "as if it answered, and compares (`chunkside_audits_total`): to try it out. What is not "
        "held is then asked for twice",
    )
    max_body_size: AutoSize = Field(
        default="auto",
        description="Larger bodies are relayed, not stored. `auto`: an eighth of `cache_size`, "
        "at most 2 GiB",
    )
    cache_missing: Switch = Field(default=True, description="Remember absences at all")
    ttl: Duration = Field(
        default=300.0, description="Lifetime of bodies where the origin gives none; then validated"
    )
    negative_scope: NegativeScope = Field(
        default="auto",
        description="What a marker answers. `get`: full GETs; `all`: HEAD and ranges too, whose "
        "404s are followed by a full GET that makes the marker; `auto`: `all` where writes are "
        "refused, else `get`",
    )
    negative_ttl: Duration = Field(
        default=300.0, description="Ceiling of a marker's life; not renewed by use"
    )
    metadata_ttl: Duration = Field(
        default=5.0, description="Ceiling of both lifetimes for metadata documents"
    )
    stale_if_error: Duration = Field(
        default=86_400.0,
        description="For how long a stale body with a validator may stand in for an origin that "
        "fails; never an absence. The origin's own `stale-if-error` goes before",
    )
    upstream_cache_control: AutoCacheControl = Field(
        default="auto",
        description="`Cache-Control` and `Expires` of bodies: `obey`, or `ignore` all but "
        "`no-store`; `auto`: `ignore` for `gs://` (it stamps `private, max-age=0` on every private "
        "object), else `obey`",
    )
    client_cache_control: CacheControl = Field(
        default="ignore",
        description="`Cache-Control` and `Pragma` of requests: `obey` or `ignore` (some readers "
        "send `no-cache` with every read). `no-store` and `only-if-cached` are always obeyed",
    )
    targeted_cache_control: TargetedNames = Field(
        default=("Chunkside-Cache-Control",),
        description="Answers' fields that are meant for this cache (RFC 9213). The first that is "
        "there and valid takes the place of `Cache-Control` and `Expires`, and is obeyed whatever "
        "`upstream_cache_control` is. Add `CDN-Cache-Control` where that means this cache, too",
    )
    metadata_names: Texts = Field(
        default=(), description="Further glob patterns of names that are metadata, not chunks"
    )
    absent_statuses: AbsentStatuses = Field(
        default=frozenset({404, 410}),
        description="Statuses that are remembered as an absence: `404`, `410`, and `403` for a "
        "store that answers so for missing keys: a chunk's 403 is then told as 404, once its "
        "array's own document was read after it by the same credential",
    )
    client_credentials: Credentials = Field(
        default="auto",
        description="What clients bring in `credential_headers`. `partition`: what was learned "
        "with one answers only that one; `strip`: it is removed, and all share what is stored; "
        "`share`: it is forwarded, bodies are shared, absences are not; `auto`: `strip` with "
        "`upstream_auth` and for `s3://`, `gs://` and `az://`, else `partition`",
    )
    credential_headers: HeaderNames = Field(
        default=(
            "Authorization",
            "Cookie",
            "X-Api-Key",
            "X-Auth-Token",
            "Private-Token",
            "X-Amz-Security-Token",
        ),
        description="Request headers that tell clients apart: see `client_credentials`",
    )
    ignored_query: Texts = Field(
        default=("x-id", "tensorstore"),
        description="Query parameters that are forwarded but are not part of the key",
    )
    allow_writes: AutoSwitch = Field(
        default="auto",
        description="Forward unsafe methods; else they are refused with 405. `auto`: for "
        "`http(s)://`, unless the sidecar has a credential of its own. Files (`file://`) are only "
        "read",
    )
    upstream_auth: UpstreamAuth = Field(
        default="auto",
        description="The sidecar's own credential, in the place of what clients bring: `bearer`, "
        "`basic` or `header`, from `upstream_auth_file`; `aws`: requests to `s3://` are signed "
        "with what AWS's own chain of credentials finds; `gcp`: those to `gs://` bear a token that "
        "Google's finds; `azure`: those to `az://` bear what `upstream_auth_file`, the environment "
        "or Azure's own chain gives; `none`; `auto`: the store's own where that finds any, else "
        "none",
    )
    upstream_auth_file: File = Field(
        default=None,
        description="The secret: for `bearer` a token, for `basic` `user:password`, for `header` "
        "`Name: value`, for `azure` an account key, a SAS or a connection string. Read again when "
        "it changes",
    )
    upstream_endpoint: Endpoint = Field(
        default=None,
        description="Where the store of `s3://`, `gs://` or `az://` answers, if not the cloud's: "
        "an `http://` or `https://` URL without a path",
    )
    upstream_region: Region = Field(
        default=None,
        description="Region that `s3://` is asked in at first. Left out: what AWS's configuration "
        "says, else `us-east-1`. A bucket's own is learnt from the store's answer",
    )
    upstream_addressing: Addressing = Field(
        default="auto",
        description="Whether `s3://` names the bucket in the `path` or in the host (`virtual`). "
        "`auto`: in the host at AWS, where its name can stand there, else in the path",
    )
    upstream_requester_pays: Switch = Field(
        default=False,
        description="Tell the store that who asks pays for it: `x-amz-request-payer` for `s3://`, "
        "`x-goog-user-project` with the credentials' project for `gs://`",
    )
    preserve_host: Switch = Field(
        default=False,
        description="For `http(s)://` origins that verify what clients sign: signed requests go "
        "on with the client's own `Host` and every signed field as they came, each to the origin, "
        "and none is stored",
    )
    cookies: Cookies = Field(
        default="drop",
        description="`Cookie` and `Set-Cookie`: `drop` or `forward` (cookies don't keep to ports)",
    )
    cors_origins: Origins = Field(
        default=(),
        description="Origins of web pages that may read answers, such as `http://localhost:3000`; "
        "`*` for all. Left out, the origin's own CORS fields say so",
    )
    upstream_connect_timeout: Timeout = Field(
        default=3.0, description="Longest wait for a connection to the origin"
    )
    upstream_first_byte_timeout: Timeout = Field(
        default=8.0, description="Longest wait for the first byte of one try"
    )
    upstream_idle_timeout: Timeout = Field(
        default=15.0, description="Longest silence within a body from the origin"
    )
    upstream_retries: Count = Field(
        default=3,
        description="Further tries after the first, of safe methods without a body, where the "
        "connection failed, nothing came in time, or the answer was 429, 500, 502, 503 or 504",
    )
    upstream_deadline: Timeout = Field(
        default=25.0, description="Longest wait for the first byte, queueing and all tries included"
    )
    upstream_write_timeout: Timeout = Field(
        default=300.0,
        description="Longest wait for the answer to an unsafe method or a request with a body, "
        "once the body has been sent",
    )
    upstream_ca_file: File = Field(
        default=None,
        description="Certificates in PEM of the authorities that an `https://` origin is believed "
        "by. Read again when it changes. Left out: the system's",
    )
    upstream_cert_file: File = Field(
        default=None,
        description="Certificate in PEM, with those that lead to its authority, for an `https://` "
        "origin that asks for one. Read again when it changes",
    )
    upstream_key_file: File = Field(
        default=None,
        description="Its key in PEM, without a password. Left out: it stands in the same file",
    )
    follow_redirects: RedirectHosts = Field(
        default=(),
        description="Hosts to which redirects of reads are followed: `host`, `host:port` or "
        "`*.suffix`, all credentials left behind. Any other redirect passes through",
    )
    audit_share: Share = Field(
        default=0.0,
        description="Share of hits and remembered 404s that are asked of the origin again, in the "
        "background, and compared (`chunkside_audits_total`): `0.01` or `1%`. What isn't so is "
        "forgotten",
    )
    upstream_connections: Several = Field(default=128, description="Most connections to the origin")
    upstream_queue: Count = Field(
        default=4096,
        description="Most requests that wait for one of them; beyond, 503 at once",
    )
