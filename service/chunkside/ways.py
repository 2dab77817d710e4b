"""The way to a route's origin, built from its settings: who asks there, by which connections, and
in which store's words.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from chunkside.gateway.ports import Clock, Observer
from chunkside.metrics import Metrics
from chunkside.settings import (
    BucketAddress,
    ConfiguredRoute,
    DirectoryAddress,
    RouteSettings,
    allows_writes,
    auth_kind,
    is_azure,
    may_sign,
    tls_files,
)
from chunkside.settings.addresses import without_secrets
from chunkside.upstream import aws, azure_secrets, google
from chunkside.upstream.azure import Azure, AzureEndpoint
from chunkside.upstream.chain import Chain
from chunkside.upstream.clouds import CLOUDS
from chunkside.upstream.credential import Credential
from chunkside.upstream.file import FileUpstream
from chunkside.upstream.gcs import Gcs, GcsEndpoint
from chunkside.upstream.hops import Means, Store
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.reading import Files
from chunkside.upstream.redirects import Redirects
from chunkside.upstream.root import Root
from chunkside.upstream.s3 import FIRST_REGION, S3, S3Endpoint
from chunkside.upstream.tls import Tls
from chunkside.upstream.unused import Unused, find_unused
from chunkside.upstream.wire import Times

log = logging.getLogger(__name__)


def means_of(configured: ConfiguredRoute) -> Means:
    """Reads files. Raises UnfitFile."""
    settings = configured.settings
    chain = _chain(configured) if may_sign(configured) else None
    return Means(Tls(tls_files(configured)), _credential(settings), _redirects(settings), chain)


def _chain(configured: ConfiguredRoute) -> Chain[Any] | None:
    """Of the store's own cloud."""
    is_required = configured.settings.upstream_auth != "auto"
    match configured.upstream:
        case BucketAddress(scheme="s3"):
            return aws.find(is_required=is_required)
        case BucketAddress(scheme="gs"):
            return google.find(
                is_required=is_required,
                may_write=allows_writes(configured),
                must_pay=configured.settings.upstream_requester_pays,
            )
        case BucketAddress(scheme="az", account=account):
            file = configured.settings.upstream_auth_file if is_required else None
            return azure_secrets.find(account, file, is_required=is_required)
        case _:
            return None


def upstream_of(
    configured: ConfiguredRoute, metrics: Metrics, clock: Clock, instance: str, means: Means
) -> HttpUpstream | FileUpstream:
    """The way to a route's origin. It must be closed. `instance`: the process's name in `Via`."""
    settings, address = configured.settings, configured.upstream
    observer = metrics.of(configured.prefix)
    if isinstance(address, BucketAddress):
        store = _store(address, settings, means, clock, observer)
        means = replace(means, store=store, unused=_unused(configured, address, means))
    if isinstance(address, DirectoryAddress):
        name = f"the directory of route {configured.prefix}"
        files = Files(Root(address.directory))
        return FileUpstream(name, files, _times(settings), observer, clock=clock)
    return HttpUpstream(
        address.location,
        _times(settings),
        observer,
        via=f"1.1 {instance}".encode(),
        clock=clock,
        means=means,
    )


def _unused(configured: ConfiguredRoute, address: BucketAddress, means: Means) -> Unused | None:
    if means.chain is not None:
        return None
    is_off = configured.settings.upstream_auth == "none"
    return find_unused(CLOUDS[address.scheme], configured.prefix, is_off=is_off)


def _store(
    address: BucketAddress, settings: RouteSettings, means: Means, clock: Clock, observer: Observer
) -> Store:
    if is_azure(address):
        endpoint = AzureEndpoint(address.location, address.prefix.encode())
        return Azure(endpoint, means.chain, clock, observer)
    if address.scheme == "gs":
        pays = settings.upstream_requester_pays
        return Gcs(GcsEndpoint(address.location, pays), means.chain, observer)
    if address.endpoint is None:
        _tell_of_elsewhere(address)
    return S3(_endpoint(address, settings), means.chain, clock, observer)


def _tell_of_elsewhere(address: BucketAddress) -> None:
    """It may be meant, and may be where readers find this very sidecar."""
    elsewhere = aws.endpoint()
    if elsewhere is not None:
        log.warning(
            "upstream %s: S3 is asked at AWS. AWS's own settings (AWS_ENDPOINT_URL, endpoint_url) "
            "name %s: if that is the store, set upstream_endpoint",
            address,
            without_secrets(elsewhere),
        )


def _endpoint(address: BucketAddress, settings: RouteSettings) -> S3Endpoint:
    return S3Endpoint(
        location=address.location,
        is_aws=address.endpoint is None,
        region=settings.upstream_region or aws.region() or FIRST_REGION,
        addressing=settings.upstream_addressing,
        requester_pays=settings.upstream_requester_pays,
    )


def _times(settings: RouteSettings) -> Times:
    return Times(
        connect=settings.upstream_connect_timeout,
        first_byte=settings.upstream_first_byte_timeout,
        idle=settings.upstream_idle_timeout,
        deadline=settings.upstream_deadline,
        write=settings.upstream_write_timeout,
        retries=settings.upstream_retries,
        connections=settings.upstream_connections,
        queue=settings.upstream_queue,
    )


def _credential(settings: RouteSettings) -> Credential | None:
    kind, file = auth_kind(settings), settings.upstream_auth_file
    return None if kind is None or file is None else Credential(kind, file)


def _redirects(settings: RouteSettings) -> Redirects | None:
    hosts = settings.follow_redirects
    return Redirects(hosts, credential_names(settings)) if hosts else None


def credential_names(settings: RouteSettings) -> frozenset[bytes]:
    return frozenset(name.lower().encode() for name in settings.credential_headers)
