"""Where the origin is, and where the sidecar listens."""

from dataclasses import replace

import pytest

from chunkside.settings.addresses import (
    BucketAddress,
    DirectoryAddress,
    TcpAddress,
    UnixAddress,
    UpstreamAddress,
    parse_endpoint,
    parse_listen,
    parse_upstream,
    root_of,
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


AWS = "https://s3.amazonaws.com:443"
GOOGLE = "https://storage.googleapis.com:443"
AZURE = "https://acct.blob.core.windows.net:443"


@pytest.mark.parametrize(
    ("url", "scope", "shown", "root", "location"),
    [
        ("s3://", "", "s3://", "s3://", AWS),
        ("S3://bucket", "/bucket", "s3://bucket", "s3://bucket/", AWS),
        ("s3://b-b/a%20b/c/", "/b-b/a%20b/c", "s3://b-b/a%20b/c", "s3://b-b/a%20b/c/", AWS),
        ("gs://", "", "gs://", "gs://", GOOGLE),
        ("gs://my_bucket/x", "/my_bucket/x", "gs://my_bucket/x", "gs://my_bucket/x/", GOOGLE),
        ("az://acct/", "", "az://acct", "az://acct/", AZURE),
        ("az://acct/box/x", "/box/x", "az://acct/box/x", "az://acct/box/x/", AZURE),
        ("az://acct/$web", "/$web", "az://acct/$web", "az://acct/$web/", AZURE),
        ("az://acct.blob.core.windows.net/box", "/box", "az://acct/box", "az://acct/box/", AZURE),
    ],
)
def test_a_bucket_is_read(url, scope, shown, root, location):
    address = parse_upstream(url)
    assert isinstance(address, BucketAddress)
    assert (address.scope, address.prefix, str(address)) == (scope, "", shown)
    assert root_of(address) == root
    assert address.location == location
    there = replace(address, endpoint=parse_endpoint("http://store:8333"))
    assert there.location == "http://store:8333"
    # Where the host is not the account's, it stands before the container.
    assert (there.prefix, there.scope) == ("/acct" if url.startswith("az") else "", scope)
    assert parse_upstream(there) is there


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://store/bucket", "has a path"),
        ("s3://bucket", "not where a store answers"),
        ("file:///a", "not where a store answers"),
        ("store:8333", "has no scheme"),
    ],
)
def test_an_endpoint_is_a_server_and_nothing_more(url, reason):
    with pytest.raises(NotAllowedError, match=reason):
        parse_endpoint(url)


def test_no_endpoint_is_proposed_that_would_be_refused():
    for text, remedy in (("/data", None), ("s3:b", None), ("host:1", "write http://host:1")):
        with pytest.raises(NotAllowedError) as told:
            parse_endpoint(text)
        assert told.value.remedy == remedy


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("data.example.org/bucket", "http://data.example.org/bucket"),
        ("localhost:9000", "http://localhost:9000"),
        ("https:/data.example.org", "https://data.example.org"),
        ("s3:/bucket", "s3://bucket"),
        ("S3:/bucket", "s3://bucket"),
        ("file:/data", "file:///data"),
        ("//host/x", "http://host/x"),
        ("az:account/box", "az://account/box"),
        ("/data", "file:///data"),
        ("arn:aws:s3:::bucket/a", "s3://bucket/a"),
        ("arn:aws-cn:s3:::bucket", "s3://bucket"),
    ],
)
def test_what_is_meant_without_a_scheme_is_said(url, meant):
    with pytest.raises(NotAllowedError) as told:
        parse_upstream(url)
    assert told.value.remedy == f"write {meant}"


def test_a_root_ends_with_a_slash():
    roots = {root_of(parse_upstream(each)) for each in ("http://o/a", "file:///", "file:///a")}
    assert roots == {"http://o/a/", "file:///", "file:///a/"}


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        pytest.param("s3://b", "not the name of a bucket", id="a short bucket"),
        pytest.param("s3://my.store:9000/b", "not the name of a bucket", id="an endpoint"),
        pytest.param("s3:///key", "has no bucket", id="no bucket"),
        pytest.param("s3://bucket/a/../b", "can't be sent as it is", id="dots beneath a bucket"),
        pytest.param("s3://bucket//a", "can't be sent as it is", id="an empty segment"),
        pytest.param("gs:///key", "has no bucket before its path", id="no bucket of Google's"),
        pytest.param("az://", "has no storage account", id="no account"),
        pytest.param("az://My-Account/box", "not the name of a storage account", id="an account"),
        pytest.param("az://acct/B", "not the name of a container", id="a container"),
        pytest.param("az://127.0.0.1:10000/a", "not the name of a storage account", id="Azurite"),
        pytest.param("az://acct/box//a", "can't be sent as it is", id="within a container"),
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
        pytest.param("file://data/x", "names a host, data", id="a relative path"),
        pytest.param("file://~/data", "names a host, ~", id="a home"),
        pytest.param("file:/data", "has no scheme", id="a file with one slash"),
        pytest.param("file://", "has no path", id="a file without a path"),
        pytest.param("file://localhost", "has no path", id="a file of this host without a path"),
        pytest.param("file:///a?b", "has a query or a fragment", id="a file with a query"),
        pytest.param("file:///a#b", "has a query or a fragment", id="a file with a fragment"),
        pytest.param("file:///a/../b", "can't be told apart", id="a file's dot segments"),
        pytest.param("file:///a/%2e%2e", "can't be told apart", id="a file's encoded dot segments"),
        pytest.param("file:////a", "can't be told apart", id="a file's doubled slash"),
        pytest.param("file:///a%2fb", "can't be told apart", id="a file's encoded slash"),
        pytest.param("file:///a%00", "can't be told apart", id="a NUL in a file's path"),
        pytest.param("file:///a b", "can't be told apart", id="a space in a file's path"),
        pytest.param("file:///a%zz", "can't be told apart", id="bad encoding in a file's path"),
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


@pytest.mark.parametrize(
    ("url", "directory", "location", "shown"),
    [
        ("file:///data", b"/data", "file:///data", "file:///data"),
        ("FILE://localhost/data/", b"/data", "file:///data", "file:///data"),
        ("file:///", b"/", "file://", "file://"),
        ("file:///a%20b/%C3%a9", b"/a b/\xc3\xa9", "file:///a%20b/%C3%A9", "file:///a%20b/%C3%a9"),
        ("file:///%64ata", b"/data", "file:///data", "file:///%64ata"),
        ("file:///a.b/..c", b"/a.b/..c", "file:///a.b/..c", "file:///a.b/..c"),
    ],
)
def test_a_directory_is_read(url, directory, location, shown):
    address = parse_upstream(url)
    assert isinstance(address, DirectoryAddress)
    assert (address.directory, address.location, str(address)) == (directory, location, shown)
    assert (address.prefix, parse_upstream(address)) == ("", address)


def test_an_upstream_is_written_as_host_headers_and_keys_need_it():
    address = parse_upstream("https://[2001:DB8::1]/p")
    assert isinstance(address, UpstreamAddress)
    assert (address.authority, address.location) == (
        "[2001:db8::1]",
        "https://[2001:db8::1]:443",
    )
    assert str(address) == "https://[2001:db8::1]/p"
    other = parse_upstream("http://o:443")
    assert isinstance(other, UpstreamAddress) and other.authority == "o:443"


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
