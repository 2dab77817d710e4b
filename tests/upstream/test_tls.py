"""Which origins are believed, and what a client is told of those that are not."""

import asyncio
import contextlib
import logging
import os
import shutil
import socket
import ssl
import threading
from pathlib import Path

import pytest

from chunkside.clock import SystemClock
from chunkside.core.fields import Fields
from chunkside.gateway.errors import OriginUnreachable
from chunkside.gateway.ports import OriginRequest
from chunkside.settings.addresses import parse_redirect_host
from chunkside.upstream import watched
from chunkside.upstream.hops import Means
from chunkside.upstream.http import HttpUpstream
from chunkside.upstream.redirects import Redirects
from chunkside.upstream.tls import Tls, TlsFiles
from chunkside.upstream.watched import UnfitFile
from chunkside.upstream.wire import Times
from tests.store.samples import LOOPS
from tests.support.certificates import Authority
from tests.support.house import Record
from tests.support.raw_origin import OK, RawOrigin, says

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
                means=Means(Tls(TlsFiles(ca_file))),
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
    with pytest.raises(OriginUnreachable, match=told) as unreachable:
        run(shows(authority, stranger), authority.ca_file)
    # It helps against no other fault.
    names_the_setting = "name its file by upstream_ca_file" in str(unreachable.value)
    assert names_the_setting is (told == "unable to get local issuer")


def test_the_systems_authorities_count_no_more_with_a_file(run, authority, stranger):
    with pytest.raises(OriginUnreachable, match="local issuer"):
        run(stranger.server(), authority.ca_file)


@pytest.mark.parametrize(
    "content", [None, b"", b"no certificate"], ids=["missing", "empty", "other"]
)
def test_a_file_without_certificates_is_refused_at_the_start(tmp_path, content):
    if content is not None:
        (tmp_path / "ca.pem").write_bytes(content)
    with pytest.raises(UnfitFile):
        Tls(TlsFiles(tmp_path / "ca.pem"))


async def test_a_file_that_was_exchanged_is_read_again_and_a_useless_one_is_not(
    authority, stranger, tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(watched, "LOOK_AGAIN_SECONDS", 0.0)
    ca_file = tmp_path / "ca.pem"

    def exchange(source):
        shutil.copy(source, tmp_path / "new")
        os.replace(tmp_path / "new", ca_file)

    def believed(context):
        return {dict(name[0] for name in each["subject"])["commonName"] for each in context}

    exchange(authority.ca_file)
    authorities = Tls(TlsFiles(ca_file))
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
    said = [each.getMessage() for each in caplog.records if each.name == watched.__name__]
    assert ["can't be used" in each for each in said] == [True, False]


async def test_the_file_is_looked_at_no_more_than_once_in_a_while(authority, tmp_path, monkeypatch):
    loop, seconds, marked = asyncio.get_running_loop(), [100.0], watched._mark_of
    looks: list[Path] = []

    def mark_of(file):
        looks.append(file)
        return marked(file)

    monkeypatch.setattr(watched, "_mark_of", mark_of)
    monkeypatch.setattr(loop, "time", lambda: seconds[0], raising=False)
    tls = Tls(TlsFiles(authority.ca_file))
    await tls.context()
    looks.clear()
    for _ in range(50):
        await tls.context()
        seconds[0] += watched.LOOK_AGAIN_SECONDS / 51
    assert looks == []
    seconds[0] += watched.LOOK_AGAIN_SECONDS
    await tls.context()
    assert looks == [authority.ca_file]


def test_whoever_speaks_http_2_as_well_is_told_that_this_does_not(authority):
    spoken = []

    async def speak(heard, writer):
        spoken.append(writer.get_extra_info("ssl_object").selected_alpn_protocol())
        await OK(heard, writer)

    async def main():
        shown = authority.server()
        shown.set_alpn_protocols(["h2", "http/1.1"])
        async with (
            RawOrigin(speak, tls=shown) as raw,
            asking(raw.url, TlsFiles(authority.ca_file)) as ask,
        ):
            assert await ask() == 200
        assert spoken == ["http/1.1"]

    asyncio.run(main())


@contextlib.asynccontextmanager
async def asking(url, files, *listed):
    """Gives what asks once, and gives the status."""
    hosts = tuple(parse_redirect_host(each) for each in listed)
    redirects = Redirects(hosts, frozenset()) if hosts else None
    upstream = HttpUpstream(
        url,
        Times(retries=0),
        Record(),
        via=b"1.1 t",
        clock=SystemClock(),
        means=Means(Tls(files), redirects=redirects),
    )

    async def ask():
        response = await upstream.send(OriginRequest("GET", b"/a", Fields(()), "chunk"))
        async for _ in response.chunks():
            pass
        return response.head.status

    try:
        yield ask
    finally:
        await upstream.close()


@contextlib.contextmanager
def refusing_server(authority):
    """Wants a certificate, and says what it has against the one that it is shown, as asyncio's own
    servers don't.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            connection, _ = listener.accept()
            tls = authority.asking_server().wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
            with contextlib.suppress(ssl.SSLError):
                tls.do_handshake()
            with socket.socket(fileno=tls.detach()) as bare:
                # What is left unread would be answered by a reset, which may overtake the reason.
                bare.shutdown(socket.SHUT_WR)
                while bare.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


@pytest.fixture(scope="module")
def ours(authority):
    return authority.certificate("DNS:reader", subject="reader")


class TestClientCertificates:
    @pytest.fixture(params=LOOPS)
    def on_a_loop(self, request):
        def run(scenario):
            with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
                runner.run(scenario())

        return run

    @pytest.mark.parametrize("is_one_file", [False, True])
    def test_it_is_shown_to_an_origin_that_asks_for_one(
        self, on_a_loop, authority, ours, tmp_path, is_one_file
    ):
        seen = []

        async def speak(heard, writer):
            [[[_, name]]] = writer.get_extra_info("peercert")["subject"]
            seen.append(name)
            await OK(heard, writer)

        both = tmp_path / "both.pem"
        both.write_bytes(ours[0].read_bytes() + ours[1].read_bytes())
        files = TlsFiles(authority.ca_file, *((both,) if is_one_file else ours))

        async def scenario():
            async with (
                RawOrigin(speak, tls=authority.asking_server()) as raw,
                asking(raw.url, files) as ask,
            ):
                assert await ask() == 200
            assert seen == ["reader"]

        on_a_loop(scenario)

    @pytest.mark.parametrize("shows_another", [False, True])
    def test_without_the_right_one_nothing_is_asked_and_the_reason_is_told(
        self, on_a_loop, authority, stranger, shows_another
    ):
        other = stranger.certificate("DNS:reader") if shows_another else ()
        why = "unknown ca" if shows_another else "certificate required"

        async def scenario():
            with refusing_server(authority) as url:
                async with asking(url, TlsFiles(authority.ca_file, *other)) as ask:
                    with pytest.raises(OriginUnreachable, match=why):
                        await ask()

        on_a_loop(scenario)

    def test_one_that_was_exchanged_is_shown_from_then_on(
        self, on_a_loop, authority, ours, tmp_path, monkeypatch, caplog
    ):
        monkeypatch.setattr(watched, "LOOK_AGAIN_SECONDS", 0.0)
        newer = authority.certificate("DNS:reader", subject="newer")
        cert, key, seen = tmp_path / "cert.pem", tmp_path / "key.pem", []

        def exchange(source, target):
            shutil.copy(source, tmp_path / "new")
            os.replace(tmp_path / "new", target)

        async def speak(heard, writer):
            [[[_, name]]] = writer.get_extra_info("peercert")["subject"]
            seen.append(name)
            await OK(heard, writer)

        async def scenario():
            async with (
                RawOrigin(speak, tls=authority.asking_server()) as raw,
                asking(raw.url, TlsFiles(authority.ca_file, cert, key)) as ask,
            ):
                assert await ask() == 200
                # Only half of it: the old pair goes on counting.
                exchange(newer[0], cert)
                assert await ask() == 200
                exchange(newer[1], key)
                assert await ask() == 200
                assert await ask() == 200
            assert seen == ["reader", "reader", "newer", "newer"]
            assert raw.connections == 2

        exchange(ours[0], cert)
        exchange(ours[1], key)
        with caplog.at_level(logging.INFO, "chunkside"):
            on_a_loop(scenario)
        said = [each.getMessage() for each in caplog.records if each.name == watched.__name__]
        assert "the key is not that of the certificate" in said[0]
        assert said[1].endswith("was read again")

    def test_it_is_shown_to_no_other_host(self, on_a_loop, authority, ours):
        async def speak_away(heard, writer):
            assert writer.get_extra_info("peercert") is None
            await OK(heard, writer)

        async def scenario():
            shown = authority.server()
            shown.verify_mode = ssl.CERT_OPTIONAL
            shown.load_verify_locations(authority.ca_file)
            async with RawOrigin(speak_away, tls=shown) as away:
                to = b"Location: " + away.url.encode()
                there = says(b"HTTP/1.1 302 Go\r\nContent-Length: 0\r\n" + to + b"/\r\n\r\n")
                async with RawOrigin(there, tls=authority.asking_server()) as raw:
                    files = TlsFiles(authority.ca_file, *ours)
                    async with asking(raw.url, files, f"127.0.0.1:{away.port}") as ask:
                        assert await ask() == 200
                    assert (len(raw.heard), len(away.heard)) == (1, 1)

        on_a_loop(scenario)

    @pytest.mark.parametrize(
        ("spoil", "why"),
        [
            (lambda made, _: (made.with_name("none"), None), "No such file"),
            (lambda made, _: (made, None), "no certificate in PEM with its key"),
            (lambda _, ca: (ca, None), "no certificate in PEM with its key"),
        ],
        ids=["missing", "no key", "no key beside"],
    )
    def test_files_of_no_use_are_told_in_words(self, authority, ours, spoil, why):
        with pytest.raises(UnfitFile, match=why):
            Tls(TlsFiles(None, *spoil(ours[0], authority.ca_file)))

    def test_another_key_and_one_with_a_password_are_told_in_words(self, authority, ours):
        other = authority.certificate("DNS:other", subject="other")
        with pytest.raises(UnfitFile, match="not that of the certificate"):
            Tls(TlsFiles(None, ours[0], other[1]))
        with pytest.raises(UnfitFile, match="asks for a password"):
            Tls(TlsFiles(None, ours[0], authority.locked(ours[1])))


@pytest.mark.parametrize("loop", LOOPS)
def test_a_clients_own_host_goes_to_an_origin_that_is_believed_by_its_own_name(authority, loop):
    shown, names = authority.server("DNS:localhost"), []
    shown.sni_callback = lambda _, name, __: names.append(name)

    async def main():
        async with RawOrigin(OK, tls=shown) as raw:
            upstream = HttpUpstream(
                f"https://localhost:{raw.port}",
                Times(retries=0),
                Record(),
                via=b"1.1 t",
                clock=SystemClock(),
                means=Means(Tls(TlsFiles(authority.ca_file))),
            )
            try:
                asked = OriginRequest("GET", b"/a", Fields(()), "chunk", host=b"bucket.example:1")
                (await upstream.send(asked)).close()
                return raw.heard[0].head
            finally:
                await upstream.close()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        head = runner.run(main())
    assert names == ["localhost"]
    assert b"\r\nHost: bucket.example:1\r\n" in head and head.lower().count(b"\nhost:") == 1
