"""Pages in a real Chromium, by Playwright: what they say, and what a browser says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from tests.support.browser import program

VIEWS: Final[Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "light": {"color_scheme": "light", "viewport": {"width": 1180, "height": 900}},
        "dark": {"color_scheme": "dark", "viewport": {"width": 1180, "height": 900}},
        "phone": {
            "color_scheme": "light",
            "viewport": {"width": 390, "height": 844},
            "device_scale_factor": 2,
        },
    }
)
"""How a page is looked at."""
_FLAGS: Final = (
    *("--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
)
_MILLISECONDS: Final = 30_000


@dataclass
class Visit:
    """A page that is open. `complaints`: whatever the browser had to say against it."""

    page: Page
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(_MILLISECONDS)
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("requestfailed", self._miss)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _miss(self, request: Request) -> None:
        self.complaints.append(f"{request.url}: {request.failure}")

    def text(self, selector: str) -> str:
        return " ".join(self.page.inner_text(selector).split())

    def until_other(self, selector: str, before: str) -> str:
        """The text of an element once it is another than it was."""
        # A function that polls within the page would be refused by its policy.
        shown = expect(self.page.locator(selector))
        shown.not_to_have_text(before, use_inner_text=True, timeout=_MILLISECONDS)
        return self.text(selector)

    def until_says(self, selector: str, part: str) -> None:
        expect(self.page.locator(selector)).to_contain_text(part, timeout=_MILLISECONDS)

    def faults(self) -> list[str]:
        """What axe finds, of what it calls serious or critical."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{each['id']}: {node['html']}: {node['failureSummary']}"
            for each in found
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    def is_wider_than_its_window(self) -> bool:
        return bool(self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth"))


@contextmanager
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=program(), args=list(_FLAGS), chromium_sandbox=False
        )
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def visit(opened: Browser, url: str, view: str = "light", **more: Any) -> Iterator[Visit]:
    context = opened.new_context(**VIEWS[view], **more)
    try:
        visited = Visit(context.new_page())
        visited.page.goto(url)
        yield visited
    finally:
        context.close()
