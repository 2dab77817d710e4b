"""Every use of aiohttp's private parts, so that a new minor version is read against one directory.

`serving` is what is used of its server, `asking` what of its client.
`tests/test_aiohttp_internals.py` is the canary.
"""

from __future__ import annotations

from typing import Final

import aiohttp
from aiohttp import http_parser

OLDEST: Final = (3, 14, 3)
TOO_NEW: Final = (3, 15)


class UnfitAiohttp(Exception):
    """The installed aiohttp can't be used; the text says why and what to install."""


def check_aiohttp() -> None:
    """Raises UnfitAiohttp unless its version is one this file was read against, with its C
    parser.
    """
    version = tuple(int(part) for part in aiohttp.__version__.split(".")[:3] if part.isdigit())
    if not OLDEST <= version < TOO_NEW:
        raise UnfitAiohttp(
            f"aiohttp {aiohttp.__version__} is installed; 3.14.3 to 3.14.* is needed"
        )
    if http_parser.HttpRequestParser is http_parser.HttpRequestParserPy:
        raise UnfitAiohttp(
            "aiohttp runs without its C parser: install its wheel and unset AIOHTTP_NO_EXTENSIONS"
        )
