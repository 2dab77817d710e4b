"""Targets and URLs: which target of the data port is meant."""

import pytest

from chunkside.settings.addresses import TcpAddress, UnixAddress
from chunkside.tools.targets import Located, NoTarget, RouteNames, locate

OWN = (TcpAddress("localhost", 8100), UnixAddress("/s"))
ROUTES = [
    RouteNames("/era5", "https://data.example.org/bucket/era5"),
    RouteNames("/", "https://data.example.org/bucket"),
    RouteNames("/near", "http://127.0.0.1:9000/x"),
    RouteNames("/files", "file:///data"),
]


def located(text, routes=ROUTES):
    return locate(text, OWN, lambda: routes)


@pytest.mark.parametrize(
    "target",
    ["/a.zarr/zarr.json", "/", "/a//b", "/a?x=1&y=%2F?", "/a%20b/%2e%2E/c", "/a/../b", "/a;b=c@d"],
)
def test_a_target_stays_as_it_is_to_the_byte(target):
    assert located(target) == Located(target)


@pytest.mark.parametrize(
    ("text", "target"),
    [("/a b", "/a%20b"), ("/ü", "/%C3%BC"), ("/a\n", "/a%0A"), ("/\udcff", "/%FF")],
)
def test_what_no_request_can_hold_is_encoded(text, target):
    assert located(text) == Located(target)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://localhost:8100/a/zarr.json", "/a/zarr.json"),
        ("http://127.0.0.1:8100/a?b=%26&c", "/a?b=%26&c"),
        ("http://[::1]:8100", "/"),
        ("http://LOCALHOST:8100?a=/b", "/?a=/b"),
    ],
)
def test_a_url_of_the_data_port_is_its_target_and_nobody_is_asked(url, target):
    def nobody():
        raise AssertionError("asked")

    assert locate(url, OWN, nobody) == Located(target)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://data.example.org/bucket/a/zarr.json", "/a/zarr.json"),
        ("https://data.example.org:443/bucket/a%2Fb?v=1", "/a%2Fb?v=1"),
        ("https://DATA.example.org/bucket", "/"),
        ("https://data.example.org/bucket?list-type=2", "/?list-type=2"),
        ("https://data.example.org/bucket/era5/t2m", "/era5/t2m"),
        ("https://data.example.org/bucket/era5x/t2m", "/era5x/t2m"),
        ("http://127.0.0.1:9000/x/a", "/near/a"),
        ("file:///data/a/c/0", "/files/a/c/0"),
    ],
)
def test_a_url_of_an_upstream_is_the_target_in_whose_place_it_stands(url, target):
    assert located(url) == Located(target)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "chunkside", "a.localhost"])
def test_a_url_of_a_near_host_is_of_another_data_port(host):
    found = located(f"http://{host}:7777/a?b")
    assert found == Located("/a?b", TcpAddress(host.strip("[]"), 7777))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a/b", "did you mean /a/b?"),
        ("", "neither begins with /"),
        ("/a#b", "%23"),
        ("https://elsewhere.example.org/a", "https://data.example.org/bucket/"),
        ("https://data.example.org/other/a", "neither of the data port nor of an upstream"),
        ("http://127.0.0.1:9000/y", "neither of the data port nor of an upstream"),
        ("s3://bucket/key", "neither of the data port nor of an upstream"),
        ("http://h:99999/", "no URL"),
        ("http://[::1/", "no URL"),
    ],
)
def test_what_is_no_target_is_told_in_a_sentence(text, sentence):
    with pytest.raises(NoTarget) as refusal:
        located(text)
    assert sentence in str(refusal.value)
