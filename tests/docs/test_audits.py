"""docs/audits.md holds what the code does."""

import re
from typing import get_args

from chunkside.core.audit import Why
from chunkside.metrics import Metrics
from chunkside.metrics.audits import VERDICTS
from chunkside.settings import Settings
from tests.docs.named_tests import page

PAGE = page("audits.md")


def test_it_explains_each_verdict() -> None:
    table = PAGE.split("## The three verdicts")[1].split("##")[0]
    assert tuple(re.findall(r"(?m)^\| `(\w+)`", table)) == VERDICTS


def test_its_metrics_exist() -> None:
    shown = Metrics("1").exposition("")[0].decode()
    names = set(re.findall(r"chunkside_\w+", PAGE))
    assert names
    assert all(f"\n{name}" in shown for name in names)
    assert all(f'reason="{why}"' in shown for why in Why)


def test_its_settings_exist() -> None:
    for name in ("audit_share", "mode", "max_body_size", "upstream_connections"):
        assert f"`{name}" in PAGE
        assert name in Settings.model_fields
    assert get_args(Settings.model_fields["mode"].annotation) == ("cache", "observe")
