"""docs/reloading.md holds what the code does."""

import re

from chunkside.metrics import Metrics
from chunkside.settings.reloading import NEED_A_RESTART
from chunkside.settings.routes import AGREED
from tests.docs.named_tests import page

PAGE = page("reloading.md")


def test_it_names_what_needs_a_restart() -> None:
    section = PAGE.split("## What needs a restart")[1].split("##")[0]
    assert tuple(re.findall(r"`(\w+)`", section)) == NEED_A_RESTART


def test_it_names_what_makes_an_origin_forgotten() -> None:
    [told] = re.findall(r"which answers are the same, and for whom \((.*?)\)", PAGE, re.DOTALL)
    assert tuple(re.findall(r"`(\w+)`", told)) == AGREED


def test_its_metrics_exist() -> None:
    shown = Metrics("1").exposition("")[0].decode()
    names = re.findall(r"`(chunkside_\w+)`", PAGE)
    assert len(names) == 2
    assert all(f"\n{name} " in shown for name in names)
