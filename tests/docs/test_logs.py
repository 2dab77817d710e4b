"""docs/logs.md names what lines hold."""

import re
from dataclasses import fields

from chunkside.core.cache_status import CacheStatus
from chunkside.core.fields import Fields
from chunkside.metrics import Saved
from chunkside.server.request_lines import Told, _members
from tests.docs.named_tests import page

PAGE = page("logs.md")
PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_it_names_every_field_of_a_request_line_and_no_other() -> None:
    rows = re.findall(r"(?m)^\| (`.+?) \|", PAGE)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    asked = Fields([(b"traceparent", PARENT)])
    cache_status = CacheStatus(fwd_status=200, detail="why")
    told = Told("GET", b"/", asked, "/", "chunk", "miss", 200, 0, 0.1, cache_status, 1)
    assert named == list(_members(told))


def test_it_names_all_that_is_said_at_the_end() -> None:
    assert all(f"`{field.name}`" in PAGE for field in fields(Saved))
