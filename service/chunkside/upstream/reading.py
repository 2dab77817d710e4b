"""What a directory answers as an HTTP origin would: blocking calls, for threads that may hang."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from chunkside.core.entry import Now, Stored
from chunkside.core.fields import Fields
from chunkside.core.heads import SelectedHead, head_of
from chunkside.core.key import CacheKey, Namespace
from chunkside.core.ranges import select
from chunkside.core.response import ResponseHead
from chunkside.gateway.ports import OriginRequest
from chunkside.upstream.beneath import LinkToNothing, Way, best_way, open_file
from chunkside.upstream.describing import dated, fields_of, is_unchanged
from chunkside.upstream.names import NoFileName, names_of
from chunkside.upstream.root import Root

PIECE_BYTES: Final = 256 << 10
# How often a file is begun anew that changes meanwhile, or was replaced at its server.
_TRIES: Final = 3
_ALLOW: Final = (b"Allow", b"GET, HEAD, OPTIONS")
# None of these is said of a key that is absent.
_UNREMEMBERED: Final = (b"Cache-Control", b"no-store")

_NO_REGULAR_FILE: Final = "What is there is no regular file."
_OUTSIDE: Final = (
    "It lies outside of the upstream's directory, or on a volume mounted within it: give that a "
    "route of its own."
)
_NO_SUCH_NAME: Final = "The file system can't have a file of such a name."
_REFUSALS: Final = {
    errno.EACCES: (403, "This process may not read it."),
    errno.EPERM: (403, "This process may not read it."),
    errno.EXDEV: (403, _OUTSIDE),
    errno.ELOOP: (403, "A symbolic link is on the way that isn't followed."),
    errno.ENXIO: (403, _NO_REGULAR_FILE),
    errno.ENODEV: (403, _NO_REGULAR_FILE),
    errno.EINVAL: (400, _NO_SUCH_NAME),
    errno.EILSEQ: (400, _NO_SUCH_NAME),
    errno.ENAMETOOLONG: (414, "The file system can't have a name as long as that."),
}

Read = Callable[[int, int, int], bytes]
"""`os.pread`."""


class Changed(Exception):
    """A file is another than when its reading began."""


@dataclass(slots=True)
class Rest:
    """What of an open file is still to be read, up to `end`, exclusive. Used by one thread at a
    time.
    """

    descriptor: int
    position: int
    end: int
    began_as: os.stat_result
    read_at: Read

    @property
    def is_at_end(self) -> bool:
        return self.position == self.end

    def read(self) -> bytes:
        """The next piece. The last one is given only if the file is what it was. Raises Changed,
        OSError.
        """
        wanted = min(PIECE_BYTES, self.end - self.position)
        piece = self.read_at(self.descriptor, wanted, self.position)
        while 0 < len(piece) < wanted:
            more = self.read_at(self.descriptor, wanted - len(piece), self.position + len(piece))
            if not more:
                break
            piece += more
        if len(piece) < wanted:
            raise Changed
        self.position += wanted
        if self.is_at_end and not is_unchanged(self.began_as, os.fstat(self.descriptor)):
            raise Changed
        return piece


@dataclass(frozen=True, slots=True)
class Answer:
    """`read`: the body, or how it begins; `rest` has the file open for what follows."""

    head: ResponseHead
    read: bytes = b""
    rest: Rest | None = None


class Files:
    """All that is read beneath one root."""

    def __init__(self, root: Root, way: Way | None = None, read_at: Read = os.pread) -> None:
        self._root = root
        self._way = way or best_way()
        self._read_at = read_at

    def look(self) -> None:
        """Remembers the root as it is, if it is there. Raises RootGone."""
        os.close(self._root.open())

    def close(self) -> None:
        self._root.close()

    def answer(self, request: OriginRequest, wall: float) -> Answer:
        """To a GET or HEAD. Raises RootGone, Changed, and OSError where the file system fails."""
        try:
            *directories, name = names_of(request.target)
        except NoFileName as error:
            return told(request, 400, str(error), wall)
        root = self._root.open()
        try:
            if not name:
                return told(request, 404, "Directories aren't listed.", wall, _UNREMEMBERED)
            return self._of_file(root, (*directories, name), request, wall)
        finally:
            os.close(root)

    def _of_file(
        self, root: int, names: tuple[bytes, ...], request: OriginRequest, wall: float
    ) -> Answer:
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._try(root, names, request, wall)
            except (Changed, OSError) as error:
                is_outdated = isinstance(error, Changed) or error.errno == errno.ESTALE
                if not tries_left or not is_outdated:
                    raise
        raise AssertionError("unreachable")

    def _try(
        self, root: int, names: tuple[bytes, ...], request: OriginRequest, wall: float
    ) -> Answer:
        try:
            opened = open_file(self._way, root, names)
        except (FileNotFoundError, NotADirectoryError):
            # Of a root that went meanwhile everything is gone, too.
            self._root.check()
            return told(request, 404, "No such file.", wall)
        except LinkToNothing:
            return told(request, 502, "It is a symbolic link that leads to no file.", wall)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            return told(request, *_REFUSALS[error.errno], wall)
        answer: Answer | None = None
        try:
            answer = self._of_opened(opened, names[-1], request, wall)
        finally:
            if answer is None or answer.rest is None:
                os.close(opened)
        return answer

    def _of_opened(self, opened: int, name: bytes, request: OriginRequest, wall: float) -> Answer:
        found = os.fstat(opened)
        if stat.S_ISDIR(found.st_mode):
            # As an object store says of what only has keys beneath it; and files may come there.
            return told(request, 404, "It is a directory.", wall, _UNREMEMBERED)
        if not stat.S_ISREG(found.st_mode):
            return told(request, 403, _NO_REGULAR_FILE, wall)
        selected = _selected(request, found, fields_of(found, name, wall), wall)
        head = _head(selected, found.st_size)
        if request.method == "HEAD" or not selected.length:
            return Answer(head)
        rest = Rest(opened, selected.first, selected.end, found, self._read_at)
        begun = rest.read()
        return Answer(head, begun, None if rest.is_at_end else rest)


def told(
    request: OriginRequest, status: int, text: str, wall: float, *lines: tuple[bytes, bytes]
) -> Answer:
    """An answer in words."""
    body = f"{text}\n".encode()
    fields = Fields((*dated(wall), (b"Content-Type", b"text/plain"), *lines))
    is_head = request.method == "HEAD"
    return Answer(ResponseHead(status, fields, len(body)), b"" if is_head else body)


def other_method(request: OriginRequest, wall: float) -> Answer | None:
    """The answer to what is no GET or HEAD: nothing is changed here."""
    if request.method in ("GET", "HEAD"):
        return None
    if request.method == "OPTIONS":
        return Answer(ResponseHead(204, Fields((*dated(wall), _ALLOW)), None))
    return told(request, 405, "Files are only read.", wall, _ALLOW)


def _selected(
    request: OriginRequest, found: os.stat_result, fields: Fields, wall: float
) -> SelectedHead:
    """What conditions and a range make of a file, by the same rules as of a stored body."""
    stored = Stored(
        key=CacheKey(Namespace(""), request.target),
        key_class=request.key_class,
        status=200,
        fields=fields,
        length=found.st_size,
        origin_lifetime=None,
        initial_age=0.0,
        requested_at=Now(0.0, wall),
        origin_field=None,
    )
    return head_of(stored, select(request.fields, stored, is_get=request.method == "GET"))


def _head(selected: SelectedHead, size: int) -> ResponseHead:
    match selected.status:
        case 304:
            length = None
        case 200:
            length = size
        case _:
            length = selected.length
    return ResponseHead(selected.status, selected.fields, length)
