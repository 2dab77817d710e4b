"""Which origins are believed, and what a client is told of those that are not."""

import asyncio
import logging
import os
import shutil

import pytest

from chunkside.clock import SystemClock
from chunkside.core.fields import Fields
from chunkside.gateway.errors import OriginUnreachable
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream import tls
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.tls import Authorities, UnfitAuthorities
from chunkside.upstream.wire import Times
from tests.store.samples import LOOPS
from tests.support.certificates import Authority
from tests.support.house import Record
from tests.support.raw_origin import OK, RawOrigin

pytestmark = pytest.mark.client("openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ours"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("theirs"), "stranger")


@pytest.fixture(params=LOOPS)
def run(request):
    """Gives the status of an answer, once asked; raises what the upstream raises."""

    async def main(shown, ca_file):
        async with RawOrigin(OK, tls=shown) as raw:
            upstream = HttpUpstream(
                raw.url,
                Times(retries=0),
                Record(),
                via=b"1.1 t",
                clock=SystemClock(),
                authorities=Authorities(ca_file),
            )
            try:
                asked = OriginRequest("GET", b"/a", Fields(()), "chunk")
                response = await upstream.send(asked)
                response.close()
                assert [each.target for each in raw.heard] == [b"/a"]
                return response.head.status
            except OriginUnreachable:
                assert raw.heard == []
                raise
            finally:
                await upstream.close()

    def run(shown, ca_file):
        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(main(shown, ca_file))

    return run


def test_an_origin_is_believed_by_the_authority_of_the_file(run, authority):
    assert run(authority.server(), authority.ca_file) == 200


def test_without_a_file_only_the_systems_authorities_are_believed(run, authority):
    with pytest.raises(OriginUnreachable, match=r"(?i)certificate"):
        run(authority.server(), None)


@pytest.mark.parametrize(
    ("shows", "told"),
    [
        (lambda ours, _: ours.server(days=-1), "expired"),
        (lambda ours, _: ours.server("DNS:elsewhere.example"), "not valid for"),
        (lambda _, theirs: theirs.server(), "unable to get local issuer"),
    ],
    ids=["expired", "another name", "another authority"],
)
def test_what_is_wrong_with_a_certificate_is_told_and_nothing_is_asked(
    run, authority, stranger, shows, told
):
    with pytest.raises(OriginUnreachable, match=told):
        run(shows(authority, stranger), authority.ca_file)


def test_the_systems_authorities_count_no_more_with_a_file(run, authority, stranger):
    with pytest.raises(OriginUnreachable, match="local issuer"):
        run(stranger.server(), authority.ca_file)


@pytest.mark.parametrize(
    "content", [None, b"", b"no certificate"], ids=["missing", "empty", "other"]
)
def test_a_file_without_certificates_is_refused_at_the_start(tmp_path, content):
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    with pytest.raises(UnfitAuthorities):
        Authorities(tmp_path / "ca.pem")


async def test_a_file_that_was_exchanged_is_read_again_and_a_useless_one_is_not(
    authority, stranger, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(tls, "LOOK_AGAIN_SECONDS", 0.0)
    ca_file = tmp_path / "ca.pem"

    def exchange(source):
        shutil.copy(source, tmp_path / "new")
        os.replace(tmp_path / "new", ca_file)

    def believed(context):
        return {dict(name[0] for name in each["subject"])["commonName"] for each in context}

    exchange(authority.ca_file)
    authorities = Authorities(ca_file)
    first = await authorities.context()
    assert await authorities.context() is first
    exchange(stranger.ca_file)
    second = await authorities.context()
    assert not isinstance(first, bool) and not isinstance(second, bool)
    assert believed(first.get_ca_certs()) == {"authority"}
    assert believed(second.get_ca_certs()) == {"stranger"}
    (tmp_path / "bad").write_bytes(b"none")
    with caplog.at_level(logging.INFO, "chunkside"):
        exchange(tmp_path / "bad")
        assert await authorities.context() is second
        assert await authorities.context() is second
        ca_file.unlink()
        assert await authorities.context() is second
        exchange(authority.ca_file)
        third = await authorities.context()
    assert not isinstance(third, bool)
    assert believed(third.get_ca_certs()) == {"authority"}
    said = [each.getMessage() for each in caplog.records if each.name == tls.__name__]
    assert ["can't be used" in each for each in said] == [True, False]
