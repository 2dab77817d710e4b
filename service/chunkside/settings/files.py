"""Files that settings name and that must be there at the start."""

from __future__ import annotations

from pathlib import Path

from chunkside.settings.addresses import BucketAddress, DirectoryAddress, OriginAddress, is_azure
from chunkside.settings.errors import ConfigurationError
from chunkside.settings.model import Settings
from chunkside.settings.own_credential import auth_kind, shows_certificate, tls_files
from chunkside.settings.route_settings import RouteSettings
from chunkside.settings.routes import ConfiguredRoute
from chunkside.settings.sources import require_routes
from chunkside.upstream.azure_secrets import parsed
from chunkside.upstream.clouds import CLOUDS
from chunkside.upstream.credential import credential_line, secret_of
from chunkside.upstream.tls import TlsFiles, context_of
from chunkside.upstream.watched import UnfitFile

_SECRETS = {
    "bearer": "a file with a token",
    "basic": "a file with `user:password`",
    "header": "a file with one line, `Name: value`",
}
_KNOWN_BY = {
    "upstream_endpoint": ("s3", "gs", "az"),
    "upstream_region": ("s3",),
    "upstream_addressing": ("s3",),
    "upstream_requester_pays": ("s3", "gs"),
}


class _Unfit(Exception):
    def __init__(self, setting: str, allowed: str, reason: str) -> None:
        super().__init__(setting, allowed, reason)
        self.setting = setting
        self.allowed = allowed
        self.reason = reason


def refuse_unfit_files(settings: Settings) -> None:
    """Raises ConfigurationError."""
    routes = require_routes(settings)
    # What stands beside routes is for those that it means something to.
    each_given = [route.settings for route in settings.routes] or [settings]
    for route, given in zip(routes, each_given, strict=True):
        own = route.settings
        try:
            _look_at_words_of_stores(route, given)
            _look_at_certificates(route)
            _look_at_secret(route, given)
        except _Unfit as unfit:
            value = getattr(own, unfit.setting)
            # A route that has none of its own has the one beside it.
            beside = getattr(settings, unfit.setting)
            is_its_own = bool(settings.routes) and (value is None or value != beside)
            where = f"routes[{route.prefix}]." if is_its_own else ""
            raise ConfigurationError(
                f"{where}{unfit.setting}", value, unfit.allowed, reason=unfit.reason
            ) from unfit


def _look_at_words_of_stores(route: ConfiguredRoute, given: RouteSettings) -> None:
    upstream, fields = route.upstream, RouteSettings.model_fields
    own = "file" if isinstance(upstream, DirectoryAddress) else upstream.scheme
    for name, schemes in _KNOWN_BY.items():
        if own not in schemes and getattr(given, name) != fields[name].default:
            *most, last = (f"{scheme}://" for scheme in schemes)
            whose = f"{', '.join(most)} and {last}" if most else last
            allowed = f"left out with {own}://"
            raise _Unfit(name, allowed, f"a setting for {whose} alone")


def _look_at_certificates(route: ConfiguredRoute) -> None:
    own = route.settings
    try:
        context_of(TlsFiles(own.upstream_ca_file))
    except UnfitFile as error:
        allowed = "a file of certificates in PEM that can be read"
        raise _Unfit("upstream_ca_file", allowed, str(error)) from error
    if own.upstream_cert_file is None and own.upstream_key_file is not None:
        allowed = "a file with a certificate in PEM, where upstream_key_file is set"
        raise _Unfit("upstream_cert_file", allowed, "not set")
    if not shows_certificate(route):
        return
    try:
        context_of(tls_files(route))
    except UnfitFile as error:
        allowed = "a certificate in PEM, its key beside it or in upstream_key_file"
        raise _Unfit("upstream_cert_file", allowed, str(error)) from error


def _look_at_secret(route: ConfiguredRoute, given: RouteSettings) -> None:
    own = route.settings
    kind, file = auth_kind(own), own.upstream_auth_file
    _look_at_cloud(route)
    _look_at_file_of_cloud(route, given)
    if kind is None:
        if file is not None and own.upstream_auth == "auto":
            allowed = "azure" if is_azure(route.upstream) else "bearer, basic or header"
            raise _Unfit("upstream_auth", allowed, "upstream_auth_file is set")
        if file is not None and own.upstream_auth == "azure":
            _look_at_secret_of_azure(route.upstream, file)
        return
    if file is None:
        raise _Unfit("upstream_auth_file", _SECRETS[kind], f"not set, and upstream_auth is {kind}")
    try:
        credential_line(kind, file)
    except UnfitFile as error:
        raise _Unfit("upstream_auth_file", _SECRETS[kind], str(error)) from error


def _look_at_file_of_cloud(route: ConfiguredRoute, given: RouteSettings) -> None:
    """The chains of some clouds look for files themselves, by names of their own."""
    upstream, auth = route.upstream, route.settings.upstream_auth
    if not isinstance(upstream, BucketAddress) or route.settings.upstream_auth_file is None:
        return
    cloud = CLOUDS[upstream.scheme]
    is_meant = auth == "auto" or (auth == cloud.auth and given.upstream_auth_file is not None)
    if cloud.file_variable and is_meant:
        allowed = f"left out: {cloud.whose} own chain reads what {cloud.file_variable} names"
        raise _Unfit("upstream_auth_file", allowed, f"not read for {upstream.scheme}://")


def _look_at_secret_of_azure(upstream: OriginAddress, file: Path) -> None:
    assert isinstance(upstream, BucketAddress)
    try:
        parsed(upstream.account, secret_of(file))
    except UnfitFile as error:
        allowed = "a file with a key, SAS or connection string of the storage account"
        raise _Unfit("upstream_auth_file", allowed, str(error)) from error


def _look_at_cloud(route: ConfiguredRoute) -> None:
    told, upstream = route.settings.upstream_auth, route.upstream
    has_file = route.settings.upstream_auth_file is not None
    scheme = upstream.scheme if isinstance(upstream, BucketAddress) else ""
    meant = next((key for key, cloud in CLOUDS.items() if cloud.auth == told), scheme)
    if meant != scheme:
        raise _Unfit(
            "upstream_auth", f"another, or {meant}:// as upstream", f"{told} is for {meant}://"
        )
    if not scheme:
        return
    cloud = CLOUDS[scheme]
    if auth_kind(route.settings) is not None:
        allowed = f"auto, {cloud.auth} or none with {scheme}://"
        raise _Unfit("upstream_auth", allowed, f"is {told}")
    needs_library = told == cloud.auth and not (is_azure(upstream) and has_file)
    if needs_library and not cloud.is_installed:
        allowed = f"{told} where {cloud.library} is installed: pip install 'chunkside[{told}]'"
        raise _Unfit("upstream_auth", allowed, f"{cloud.library} is not installed")
