"""Checks what ruff, mypy and import-linter can't see. A finding is one line: where, what to do."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = PurePosixPath("service/chunkside")
CORE = PACKAGE / "core"
ARROW_FILE = PACKAGE / "store/arrow_file.py"
AIOHTTP_INTERNALS = PACKAGE / "aiohttp_internals"
SETTINGS = PACKAGE / "settings"
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

AIOHTTP_PRIVATE = re.compile(
    r"\b(_retry_connection|_payload_writer|_prepare_hook|_messages|_current_request)\b"
)
# Put together from parts, so that this file doesn't find itself.
MACHINE_PATH = re.compile(r"(?<![\w./~-])/(?:work|root|farm)" + "/")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi|files\.pythonhosted|registry\.npmjs|deb\.debian)" + r"\.org\b"
)
POLLS = re.compile(r"#\s*polls:\s*\S")
ENVIRONMENT = re.compile(r"#\s*environment:\s*\S")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True, slots=True)
class Module:
    """A Python file: its path from the repository's root, its lines, its tree."""

    path: PurePosixPath
    lines: list[str]
    tree: ast.Module

    def finding(self, line: int, message: str) -> Finding:
        return Finding(str(self.path), line, message)

    def is_in(self, folder: PurePosixPath) -> bool:
        return self.path.is_relative_to(folder)


def dotted_name(node: ast.expr | None) -> str:
    """`a.b.c` for that chain of names; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            before = dotted_name(value)
            return f"{before}.{attribute}" if before else ""
        case _:
            return ""


def core_is_pure(module: Module) -> Iterator[Finding]:
    if not module.is_in(CORE):
        return
    for node in ast.walk(module.tree):
        match node:
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield module.finding(node.lineno, "core has no async: the gateway drives")
            case ast.Call(func=function):
                called = dotted_name(function)
                if called in {"open", "print", "input"}:
                    yield module.finding(node.lineno, f"core does no I/O: {called}()")
            case ast.Attribute():
                name = dotted_name(node)
                if name.startswith("time.") or re.search(
                    r"\bdate(time)?\.(now|utcnow|today)$", name
                ):
                    yield module.finding(
                        node.lineno, f"core has no clock, `now` is an argument: {name}"
                    )
            case _:
                pass


def is_broad(exception: ast.expr | None) -> bool:
    if isinstance(exception, ast.Tuple):
        return any(is_broad(one) for one in exception.elts)
    return exception is None or dotted_name(exception) in {"Exception", "BaseException"}


def does_nothing(body: list[ast.stmt]) -> bool:
    return all(
        isinstance(statement, ast.Pass | ast.Continue)
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in body
    )


def no_exception_is_swallowed(module: Module) -> Iterator[Finding]:
    if not module.is_in(PACKAGE):
        return
    message = "an error of any kind is swallowed: catch the one that is meant, or count and log it"
    for node in ast.walk(module.tree):
        match node:
            case ast.ExceptHandler(type=exception, body=body):
                if is_broad(exception) and does_nothing(body):
                    yield module.finding(node.lineno, message)
            case ast.Call(func=function, args=arguments):
                if dotted_name(function).endswith("suppress") and any(map(is_broad, arguments)):
                    yield module.finding(node.lineno, message)
            case _:
                pass


def sleep_names(tree: ast.Module) -> set[str]:
    """What `sleep` of time and asyncio is called in this file."""
    names = {"time.sleep", "asyncio.sleep"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"time", "asyncio"}:
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "sleep"}
    return names


def tests_never_sleep(module: Module) -> Iterator[Finding]:
    if not module.is_in(PurePosixPath("tests")):
        return
    sleeps = sleep_names(module.tree)
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call) or (called := dotted_name(node.func)) not in sleeps:
            continue
        lines = module.lines[node.lineno - 1 : node.end_lineno]
        if not any(POLLS.search(line) for line in lines):
            message = f"{called}() in a test: wait for the event itself, or say `# polls: why`"
            yield module.finding(node.lineno, message)


def the_environment_is_read_in_settings(module: Module) -> Iterator[Finding]:
    if not module.is_in(PACKAGE) or module.is_in(SETTINGS):
        return
    for node in ast.walk(module.tree):
        names = imported_names(node)
        if isinstance(node, ast.Attribute):
            names = [dotted_name(node)]
        line: int = getattr(node, "lineno", 1)
        is_read = not {"os.environ", "os.getenv", "os.environb"}.isdisjoint(names)
        if is_read and not ENVIRONMENT.search(module.lines[line - 1]):
            message = "only settings reads the environment; to hand it on, say `# environment: why`"
            yield module.finding(line, message)


def nothing_is_too_long(module: Module) -> Iterator[Finding]:
    if not module.is_in(PACKAGE):
        return
    if len(module.lines) > MAX_FILE_LINES:
        message = f"{len(module.lines)} lines, at most {MAX_FILE_LINES}: this file asks to be cut"
        yield module.finding(MAX_FILE_LINES + 1, message)
    for node in ast.walk(module.tree):
        if not isinstance(node, Function):
            continue
        length = (node.end_lineno or node.lineno) - node.lineno + 1
        if length > MAX_FUNCTION_LINES:
            message = f"{node.name} has {length} lines, at most {MAX_FUNCTION_LINES}"
            yield module.finding(node.lineno, message)


def imported_names(node: ast.AST) -> list[str]:
    """Modules that an import statement names, and for `from` also what is taken from them."""
    match node:
        case ast.Import(names=aliases):
            return [alias.name for alias in aliases]
        case ast.ImportFrom(module=str(source), level=0, names=aliases):
            return [source, *(f"{source}.{alias.name}" for alias in aliases)]
        case _:
            return []


def arrow_is_in_one_file(module: Module) -> Iterator[Finding]:
    if not module.is_in(PACKAGE) or module.path == ARROW_FILE:
        return
    for node in ast.walk(module.tree):
        names = imported_names(node)
        if any(name.split(".")[0] == "pyarrow" for name in names):
            yield module.finding(
                getattr(node, "lineno", 1), f"pyarrow is imported in {ARROW_FILE} alone"
            )


def is_private_in_aiohttp(name: str) -> bool:
    first, *rest = name.split(".")
    return first == "aiohttp" and any(re.match("_[a-zA-Z]", part) for part in rest)


def aiohttp_private_parts_are_in_one_place(module: Module) -> Iterator[Finding]:
    if not module.is_in(PACKAGE) or module.is_in(AIOHTTP_INTERNALS):
        return
    message = f"aiohttp's private parts are used in {AIOHTTP_INTERNALS} alone"
    for number, line in enumerate(module.lines, start=1):
        if found := AIOHTTP_PRIVATE.search(line):
            yield module.finding(number, f"{message}: {found[0]}")
    for node in ast.walk(module.tree):
        names = imported_names(node)
        if isinstance(node, ast.Attribute):
            names = [dotted_name(node)]
        if private := [name for name in names if is_private_in_aiohttp(name)]:
            yield module.finding(getattr(node, "lineno", 1), f"{message}: {private[0]}")


MODULE_RULES: tuple[Callable[[Module], Iterator[Finding]], ...] = (
    core_is_pure,
    no_exception_is_swallowed,
    tests_never_sleep,
    the_environment_is_read_in_settings,
    nothing_is_too_long,
    arrow_is_in_one_file,
    aiohttp_private_parts_are_in_one_place,
)


def no_place_is_named(path: str, text: str) -> Iterator[Finding]:
    """No file names a path of the machine it was written on, or the host of a package registry."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := MACHINE_PATH.search(line):
            yield Finding(path, number, f"names a machine's path: {found[0]}")
        if found := REGISTRY_HOST.search(line):
            yield Finding(path, number, f"names a registry's host: {found[0]}")


def check_file(path: str, text: str) -> list[Finding]:
    """All findings in one file, given by its path from the repository's root."""
    findings = list(no_place_is_named(path, text))
    if path.endswith(".py"):
        module = Module(PurePosixPath(path), text.splitlines(), ast.parse(text, path))
        for rule in MODULE_RULES:
            findings += rule(module)
    return sorted(set(findings))


def repository_files() -> list[str]:
    """Files that are tracked or could be: all but what .gitignore names."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted({name for name in listed.split("\0") if name and (ROOT / name).is_file()})


def read_text(path: Path) -> str | None:
    """The file's text; None where it is no text."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError:
        return None


def main() -> int:
    findings: list[Finding] = []
    files = repository_files()
    for name in files:
        text = read_text(ROOT / name)
        if text is not None:
            findings += check_file(name, text)
    for finding in findings:
        print(finding)
    print(f"check_source: {len(files)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
