"""The image with the extras for the clouds: it finds credentials, and signs by them."""

import os
import re
from pathlib import Path

import pytest

from tests.image.test_image import VOLUME, free_port
from tests.plugins.requirements import find_client_program
from tests.support.containers import BASE, Store, container
from tests.support.credential_services import credential_services
from tests.support.http_client import exchange
from tests.support.seaweedfs import KEYS, ask, seaweedfs

pytestmark = [pytest.mark.image, pytest.mark.client("weed"), pytest.mark.timeout(600)]
# With aws alone it is 91 MB, within the bound of the image without any.
MOST_OVER_BASE = 125_000_000
_ASKS = "import azure.identity, google.auth.transport.requests; print('found')"
# What gives credentials, by the models that botocore keeps of it.
_KNOWS = "import botocore.session as b; print(sorted(b.Session().get_available_services()))"


@pytest.fixture(scope="module")
def image(store: Store):
    tag = f"localhost/chunkside:test-clouds-{os.getpid()}"
    store.build(tag, "aws gcp azure")
    yield tag
    store.start("buildah", "rmi", tag)


def inside(store: Store, image: str, script: str) -> str:
    flags = ("--rm", "--no-healthcheck", "--entrypoint", "python")
    return store.run("podman", "run", *flags, image, "-c", script)


def test_the_extras_add_little(store: Store, image: str, capsys: pytest.CaptureFixture) -> None:
    over_base = store.size_of(image) - store.size_of(BASE)
    with capsys.disabled():
        print(f"\nimage with aws, gcp and azure: {over_base / 1e6:.0f} MB over its base")
    assert over_base <= MOST_OVER_BASE
    assert inside(store, image, _ASKS).strip() == "found"
    assert re.findall(r"'([a-z-]+)'", inside(store, image, _KNOWS)) == [
        "signin",
        "sso",
        "sso-oidc",
        "sts",
    ]


def test_it_reads_a_private_bucket_by_what_its_container_is_given(
    store: Store, image: str, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    program = find_client_program("weed", pytestconfig.rootpath)
    assert program is not None
    with seaweedfs(program, tmp_path) as url, credential_services(KEYS) as services:
        assert ask(url, "PUT", "/era5").status == 200
        assert ask(url, "PUT", "/era5/x/c/0", b"body of the chunk").status == 200
        assert exchange(url, "/era5/x/c/0").status == 403
        port, admin_port = free_port(), free_port()
        told = {
            **services.of_a_container,
            "CHUNKSIDE_UPSTREAM": "s3://era5",
            "CHUNKSIDE_UPSTREAM_ENDPOINT": url,
            "CHUNKSIDE_UPSTREAM_AUTH": "aws",
            "CHUNKSIDE_LISTEN": f"127.0.0.1:{port}",
            "CHUNKSIDE_ADMIN_LISTEN": f"127.0.0.1:{admin_port}",
            "CHUNKSIDE_ALLOW_MEMORY_FILESYSTEM": "true",
        }
        flags = [part for item in told.items() for part in ("--env", "=".join(item))]
        volume = f"type=tmpfs,destination=/var/cache/chunkside,tmpfs-size={VOLUME}"
        with container(store, image, *flags, "--mount", volume) as running:
            answer = exchange(f"http://127.0.0.1:{port}", "/era5/x/c/0")
            assert (answer.status, answer.body) == (200, b"body of the chunk"), running.logs()
            assert exchange(f"http://127.0.0.1:{port}", "/era5/x/c/1").status == 404
