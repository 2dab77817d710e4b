"""Where the origin is, and where the sidecar listens."""

import pytest

from chunkside.settings.addresses import (
    TcpAddress,
    UnixAddress,
    UpstreamAddress,
    parse_listen,
    parse_upstream,
)
from chunkside.settings.errors import NotAllowedError


@pytest.mark.parametrize(
    ("url", "address"),
    [
        pytest.param("http://o", UpstreamAddress("http", "o", 80, ""), id="bare"),
        pytest.param("https://o/", UpstreamAddress("https", "o", 443, ""), id="slash"),
        pytest.param("HTTP://Data.Org:9/", UpstreamAddress("http", "data.org", 9, ""), id="case"),
        pytest.param("http://o/a/b//", UpstreamAddress("http", "o", 80, "/a/b"), id="prefix"),
        pytest.param("http://o/A%2fb", UpstreamAddress("http", "o", 80, "/A%2fb"), id="raw path"),
        pytest.param("http://[::1]:9000/x", UpstreamAddress("http", "::1", 9000, "/x"), id="IPv6"),
        pytest.param("http://my_origin:8", UpstreamAddress("http", "my_origin", 8, ""), id="_"),
        pytest.param(" http://10.0.0.1 ", UpstreamAddress("http", "10.0.0.1", 80, ""), id="IPv4"),
    ],
)
def test_an_upstream_is_read(url, address):
    assert parse_upstream(url) == address


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("s3://bucket/key", "not supported yet in this version", id="s3"),
        pytest.param("gs://bucket", "not supported yet in this version", id="gs"),
        pytest.param("az://account", "not supported yet in this version", id="az"),
        pytest.param("file:///data", "not supported yet in this version", id="file"),
        pytest.param("ftp://o", "unknown scheme", id="scheme"),
        pytest.param("localhost:9000", "has no scheme", id="without a scheme"),
        pytest.param("http://", "has no host", id="without a host"),
        pytest.param("http://:80", "has no host", id="only a port"),
        pytest.param("http://u:p@o", "has credentials", id="credentials"),
        pytest.param("http://o/?", "has a query or a fragment", id="an empty query"),
        pytest.param("http://o/a?b=c", "has a query or a fragment", id="a query"),
        pytest.param("http://o#f", "has a query or a fragment", id="a fragment"),
        pytest.param("http://o:x", "no port from 0 to 65535", id="a port in letters"),
        pytest.param("http://o:", "no port from 0 to 65535", id="an empty port"),
        pytest.param("http://o:65536", "no port from 0 to 65535", id="a port too large"),
        pytest.param("http://o:0", "port 0", id="port zero"),
        pytest.param("http://::1/", "lacks its brackets", id="IPv6 without brackets"),
        pytest.param("http://[::1", "not an IPv6 address", id="an open bracket"),
        pytest.param("http://[o]", "not an IPv6 address", id="a name in brackets"),
        pytest.param("http://10.0.0.256", "not a host name", id="IPv4 out of range"),
        pytest.param("http://bücher.example", "not ASCII", id="not in its xn-- form"),
        pytest.param("http://o o/", "not a host name", id="a space in the host"),
        pytest.param("http://o/a b", "can't be sent as it is", id="a space in the path"),
        pytest.param("http://o/a\r\nb", "can't be sent as it is", id="a line's end"),
        pytest.param("http://o/a/%2E%2e/b", "can't be sent as it is", id="dot segments"),
        pytest.param("http://o/%zz", "can't be sent as it is", id="bad percent-encoding"),
        pytest.param("", "not a URL", id="empty"),
        pytest.param(8080, "not a URL", id="a number"),
    ],
)
def test_a_wrong_upstream_is_refused(url, reason):
    with pytest.raises(NotAllowedError) as refusal:
        parse_upstream(url)
    assert reason in refusal.value.reason
    assert "http://" in refusal.value.allowed


@pytest.mark.parametrize(
    "url",
    [
        *("http://me:hunter2@o/", "s3://hunter2:x@bucket", "me:hunter2@o", "http://o/?t=hunter2"),
        *("http://a@b/hunter2@o#hunter2", "http://o/#hunter2"),
    ],
)
def test_what_is_shown_of_a_refused_upstream_holds_no_secret(url):
    with pytest.raises(NotAllowedError) as refusal:
        parse_upstream(url)
    shown = refusal.value.shown if refusal.value.shown is not None else url
    assert "hunter2" not in f"{shown} {refusal.value.remedy}"


def test_an_upstream_is_written_as_host_headers_and_keys_need_it():
    address = parse_upstream("https://[2001:DB8::1]/p")
    assert (address.authority, address.location) == (
        "[2001:db8::1]",
        "https://[2001:db8::1]:443",
    )
    assert str(address) == "https://[2001:db8::1]/p"
    assert parse_upstream("http://o:443").authority == "o:443"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:8100", TcpAddress("localhost", 8100)),
        ("LOCALHOST:8100", TcpAddress("localhost", 8100)),
        ("0.0.0.0:0", TcpAddress("0.0.0.0", 0)),
        ("[::1]:80", TcpAddress("::1", 80)),
        ("unix:/run/c.sock", UnixAddress("/run/c.sock")),
    ],
)
def test_a_listen_address_is_read_and_written_back(text, address):
    assert parse_listen(text) == address
    assert parse_listen(str(address)) == address


@pytest.mark.parametrize(
    "wrong",
    [
        *("", "8100", ":8100", "localhost", "::1:8100", "[::1]", "localhost:http", "a:65536"),
        *("unix:", "unix:relative", "unix:/" + "a" * 107, "http://localhost:8100", "*:8100", 8100),
    ],
)
def test_a_wrong_listen_address_is_refused(wrong):
    with pytest.raises(NotAllowedError) as refusal:
        parse_listen(wrong)
    assert "unix:/PATH" in refusal.value.allowed


def test_localhost_is_both_loopback_families():
    assert TcpAddress("localhost", 1).bind_hosts == ("127.0.0.1", "::1")
    assert TcpAddress("127.0.0.1", 1).bind_hosts == ("127.0.0.1",)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("localhost", "http://localhost:81"),
        ("0.0.0.0", "http://localhost:81"),
        ("::", "http://localhost:81"),
        ("::1", "http://[::1]:81"),
    ],
)
def test_the_url_is_what_a_client_here_uses(host, url):
    assert TcpAddress(host, 81).url == url
