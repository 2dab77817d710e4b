"""What is asked for, and what needs no request."""

import json

import pytest

from chunkside.arrays.document import parse_array
from chunkside.settings.addresses import TcpAddress
from chunkside.tools.admin_client import AdminClient
from chunkside.tools.warm import Order, warn_of_lifetimes
from chunkside.tools.warm_plan import WarmArray, is_fresh, lifetimes_of
from tests.arrays.samples import zarr2, zarr3
from tests.support.origin import Origin

HELD: dict[str, object] = {
    "target": "/a/c/0/0",
    "kind": "body",
    "ttl": 10.0,
    "must_validate": False,
    "partition": None,
    "variant": None,
}


def warm_array(base="/a", query="", name="zarr.json", document=None, elements=()):
    array = parse_array(name, document or zarr3((4, 6), (2, 2)))
    return WarmArray(base, query, array, array.grid.region(elements))


def test_all_chunks_are_asked_for_in_c_order():
    targets = list(warm_array().targets())
    assert targets == [f"/a/c/{row}/{column}" for row in range(2) for column in range(3)]


def test_keys_are_spelled_as_the_array_does():
    array = warm_array("/a%20b", "?v=1", ".zarray", zarr2((4,), (2,)))
    assert list(array.targets()) == ["/a%20b/0?v=1", "/a%20b/1?v=1"]


def test_what_is_held_is_left_out_and_nothing_else():
    array = warm_array(elements=[slice(2, 4)])
    targets = list(array.targets())
    for target in targets:
        ordinal = array.ordinal(target)
        assert ordinal is not None
        left = list(array.targets(frozenset({ordinal})))
        assert left == [each for each in targets if each != target]


@pytest.mark.parametrize(
    "target",
    ["/a/c/0/0", "/a/zarr.json?v=1", "/a/c/0/3?v=1", "/b/c/0/0?v=1", "/ab/c/0/0?v=1", "/a?v=1"],
)
def test_what_is_none_of_its_chunks_has_no_ordinal(target):
    assert warm_array(query="?v=1").ordinal(target) is None


def test_a_chunk_outside_of_the_block_has_no_ordinal():
    assert warm_array(elements=[slice(2, 4)]).ordinal("/a/c/0/0") is None


@pytest.mark.parametrize(
    ("changed", "mine", "is_held"),
    [
        pytest.param({}, None, True, id="a fresh body"),
        pytest.param({"kind": "marker"}, None, True, id="a marker"),
        pytest.param({"ttl": "infinity"}, None, True, id="without an end"),
        pytest.param({"ttl": 0.0}, None, False, id="stale now"),
        pytest.param({"ttl": -5.0}, None, False, id="stale"),
        pytest.param({"ttl": "-infinity"}, None, False, id="stale for ever"),
        pytest.param({"must_validate": True}, None, False, id="to be validated"),
        pytest.param({"kind": "range"}, None, False, id="a range"),
        pytest.param({"variant": "01234567"}, None, False, id="a variant: whose is not known"),
        pytest.param({"partition": "0a0b0c0d"}, None, False, id="another credential's"),
        pytest.param({"partition": "0a0b0c0d"}, "0a0b0c0d", True, id="one's own"),
        pytest.param({}, "0a0b0c0d", False, id="that of readers without one"),
        pytest.param({"kind": "marker"}, "0a0b0c0d", False, id="a marker of theirs"),
        pytest.param({"partition": "*"}, "0a0b0c0d", True, id="a body of all"),
        pytest.param({"partition": "*", "kind": "marker"}, "0a", False, id="no marker is of all"),
    ],
)
def test_held_is_what_would_answer_without_the_origin(changed, mine, is_held):
    assert is_fresh(HELD | changed, mine) is is_held


ROUTES = [
    {"prefix": "/", "ttl": 300.0, "negative_ttl": 300.0},
    {"prefix": "/era5", "ttl": "infinity", "negative_ttl": 60.0},
]


@pytest.mark.parametrize(
    ("target", "lifetimes"),
    [
        ("/era5/a", {"negative_ttl": 60.0}),
        ("/era5", {"negative_ttl": 60.0}),
        ("/era5x/a", {"ttl": 300.0, "negative_ttl": 300.0}),
    ],
)
def test_lifetimes_are_those_of_the_target_s_route(target, lifetimes):
    with Origin({"/info": json.dumps({"routes": ROUTES}).encode()}) as admin:
        client = AdminClient(TcpAddress("127.0.0.1", admin.port))
        assert lifetimes_of(client, target) == lifetimes


@pytest.mark.parametrize(
    ("seconds", "words"), [(61.0, "longer than negative_ttl=60s: "), (59.0, "")]
)
def test_a_run_that_outlasts_what_it_brought_says_so(capsys, seconds, words):
    with Origin({"/info": json.dumps({"routes": ROUTES}).encode()}) as admin:
        address = TcpAddress("127.0.0.1", admin.port)
        warn_of_lifetimes(Order("/era5/a", address, AdminClient(address)), seconds)
    told = capsys.readouterr().err
    assert (words in told, bool(words)) == (True, bool(told))
