"""Each rule of scripts/check_source.py: what it must find, and what it must let pass."""

import pytest

from scripts.check_source import check_file

CORE = "service/chunkside/core/policy.py"
SERVER = "service/chunkside/server/reply.py"
ARROW_FILE = "service/chunkside/store/arrow_file.py"
SETTINGS = "service/chunkside/settings/sources.py"
INTERNALS = "service/chunkside/aiohttp_internals/asking.py"
TEST = "tests/server/test_reply.py"


def long_function(lines):
    return "def f():\n" + "    x = 1\n" * (lines - 1)


# In parts, since the check reads this file too.
MACHINE_PATHS = ["/" + name + "/main" for name in ("work", "root", "farm")]
REGISTRY_HOSTS = [
    name + ".org" for name in ("pypi", "files.pythonhosted", "registry.npmjs", "deb.debian")
]

FOUND = [
    ("async in core", CORE, "async def f(): ..."),
    ("open in core", CORE, "open('x')"),
    ("print in core", CORE, "print('x')"),
    ("clock in core", CORE, "time.monotonic()"),
    ("wall clock in core", CORE, "datetime.datetime.now(datetime.UTC)"),
    ("Exception passed over", SERVER, "try: f()\nexcept Exception: pass"),
    ("bare except passed over", SERVER, "try: f()\nexcept: ..."),
    ("Exception in a tuple", SERVER, "try: f()\nexcept (OSError, Exception): pass"),
    (
        "Exception passed over in a loop",
        SERVER,
        "for _ in x:\n  try: f()\n  except Exception: continue",
    ),
    ("Exception suppressed", SERVER, "with contextlib.suppress(Exception): f()"),
    ("time.sleep in a test", TEST, "time.sleep(1)"),
    ("asyncio.sleep in a test", TEST, "async def f(): await asyncio.sleep(0.1)"),
    ("sleep by its own name", TEST, "from asyncio import sleep as nap\nnap(1)"),
    ("sleep without a reason", TEST, "time.sleep(1)  # polls:"),
    ("environment elsewhere", SERVER, "os.environ['HOME']"),
    ("environment by import", SERVER, "from os import getenv"),
    ("environment without a reason", SERVER, "os.environ.copy()  # environment:"),
    ("long file", SERVER, "x = 1\n" * 401),
    ("long function", SERVER, long_function(61)),
    ("pyarrow elsewhere", SERVER, "import pyarrow.ipc"),
    ("from pyarrow elsewhere", SERVER, "def f():\n    from pyarrow import ipc"),
    ("aiohttp's private attribute", SERVER, "response._payload_writer"),
    ("aiohttp's private attribute by name", SERVER, "getattr(x, '_current_request')"),
    ("aiohttp's private module", SERVER, "from aiohttp._http_parser import HttpRequestParser"),
    ("aiohttp's private name", SERVER, "from aiohttp.web import _x"),
    ("aiohttp's private name by path", SERVER, "aiohttp.web._run_app"),
    *((f"path {path}", "docs/x.md", f"see {path}") for path in MACHINE_PATHS),
    *((f"host {host}", "Dockerfile", f"ADD https://{host}/x") for host in REGISTRY_HOSTS),
]

PASSED = [
    ("a function in core", CORE, "def f(now: float) -> float: return now + 1"),
    ("a method called open", CORE, "entry.open()"),
    ("async outside core", SERVER, "async def f(): open('x')"),
    ("one kind of error passed over", SERVER, "try: f()\nexcept OSError: pass"),
    ("Exception counted", SERVER, "try: f()\nexcept Exception: count()"),
    ("one kind suppressed", SERVER, "with contextlib.suppress(FileNotFoundError): f()"),
    ("Exception passed over in a test", TEST, "try: f()\nexcept Exception: pass"),
    ("polling with a reason", TEST, "time.sleep(0.05)  # polls: another process's port"),
    ("polling over lines", TEST, "time.sleep(\n    0.05,  # polls: a port\n)"),
    ("sleep outside tests", SERVER, "async def f(): await asyncio.sleep(1)"),
    ("environment in settings", SETTINGS, "os.environ['HOME']"),
    ("environment in a test", TEST, "os.environ['HOME']"),
    ("environment with a reason", SERVER, "os.environ.copy()  # environment: the child's"),
    ("file of 400 lines", SERVER, "x = 1\n" * 400),
    ("function of 60 lines", SERVER, long_function(60)),
    ("long test", TEST, "x = 1\n" * 401),
    ("pyarrow in its file", ARROW_FILE, "import pyarrow as pa"),
    ("another module's name in a comment", SERVER, "x = 1  # as pyarrow does"),
    ("aiohttp's private parts in their file", INTERNALS, "import aiohttp._x\nr._payload_writer"),
    ("aiohttp's public parts", SERVER, "from aiohttp import web\nweb.Response"),
    ("a name that only begins so", SERVER, "x = my_messages"),
    ("a dunder", SERVER, "aiohttp.__version__"),
    ("a path within a path", "docs/x.md", "bucket/" + "work/x http://host/" + "root/y"),
    ("another host", "docs/x.md", "https://www.python.org/"),
]


@pytest.mark.parametrize(("path", "text"), [pytest.param(*row, id=name) for name, *row in FOUND])
def test_it_is_found(path, text):
    assert check_file(path, text)


@pytest.mark.parametrize(("path", "text"), [pytest.param(*row, id=name) for name, *row in PASSED])
def test_it_passes(path, text):
    assert check_file(path, text) == []


def test_a_finding_says_where():
    (finding,) = check_file(SERVER, "x = 1\nimport pyarrow")
    assert str(finding).startswith(f"{SERVER}:2: ")
