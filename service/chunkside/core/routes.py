"""Which route a target belongs to: the longest path prefix, byte for byte, at a slash.

A path that another spelling gives to another route is refused, so that nobody reaches past a route
of stricter settings by writing its name differently.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_to_bytes

from chunkside.core.decision import Refuse
from chunkside.core.key import object_path, origin_target
from chunkside.core.route import Route, bad_target
from chunkside.core.subtree import is_beneath

NO_ROUTE: Final = "none"
"""What requests count under that no route takes."""

_MOST_SHOWN: Final = 20
# What a path can hold beside its plainest spelling.
_NOT_PLAIN: Final = re.compile(rb"[%\\]|//|/\.\.?(?:/|$)")


@dataclass(frozen=True, slots=True)
class Branch:
    """Everything of a route's origin at and beneath `path`: decoded, as sent to the origin."""

    route: Route
    path: bytes


class Routes:
    """The routes of a sidecar, in the order of its settings: at least one, no two at one path."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._all = tuple(routes)
        self._longest_first = sorted(self._all, key=lambda route: len(route.at), reverse=True)
        plain = [(plainest(route.at), route) for route in self._all]
        self._plain = sorted(plain, key=lambda pair: len(pair[0]), reverse=True)
        self._takes_all = len(self._all) == 1 and not self._all[0].at
        # Then a path that is plain itself may be another spelling of a route's.
        self._has_spelt_prefix = any(at != route.at for at, route in plain)

    def __iter__(self) -> Iterator[Route]:
        return iter(self._all)

    @property
    def shown(self) -> str:
        """Their names, as far as a line holds them."""
        names = ", ".join(route.name for route in self._all[:_MOST_SHOWN])
        more = len(self._all) - _MOST_SHOWN
        return f"{names} and {more} more" if more > 0 else names

    def name_of(self, chosen: Route | Refuse | None) -> str:
        """What a request counts under; None where its target isn't known."""
        if isinstance(chosen, Route):
            return chosen.name
        last = self._longest_first[-1]
        return NO_ROUTE if last.at else last.name

    def named(self, name: str) -> Route | None:
        """The route of that path; a slash at its end doesn't count."""
        wanted = name.rstrip("/") or "/"
        return next((route for route in self._all if route.name == wanted), None)

    def choose(self, raw_target: bytes) -> Route | Refuse:
        """The route that a target as sent to the data port goes to."""
        if self._takes_all:
            return self._all[0]
        try:
            path = origin_target(raw_target).partition(b"?")[0]
        except ValueError:
            return bad_target("The target must be a path that begins with /.")
        found = next((r for r in self._longest_first if is_beneath(path, r.at)), None)
        if found is None:
            return Refuse(
                421,
                "no-route",
                "No route takes this path",
                f"Begin the path, byte for byte, with one of the routes: {self.shown}.",
            )
        if self._has_spelt_prefix or _NOT_PLAIN.search(path):
            meant = plainest(path)
            other = next((r for at, r in self._plain if is_beneath(meant, at)), None)
            if other is not found:
                return bad_target(
                    "Decoded and without dot segments, the target belongs to another route: spell "
                    f"its path as the routes are. There are: {self.shown}."
                )
        return found

    def branches(self, prefix: bytes) -> list[Branch]:
        """What a path on the data port, and all beneath it, comes to: routes that lie beneath it,
        and of the longest one above it what is there. Empty where there is no route.
        """
        path = prefix.partition(b"?")[0]
        found = [whole(route) for route in self._all if is_beneath(route.at or b"/", path)]
        above = self.choose(prefix)
        if isinstance(above, Route) and all(branch.route is not above for branch in found):
            found.append(Branch(above, above.place_of(prefix)))
        return found

    def is_all_of_its_location(self, route: Route) -> bool:
        """Whether all routes to its origin location lead to what lies beneath its upstream."""
        root = whole(route).path
        return all(
            is_beneath(whole(other).path, root)
            for other in self._all
            if other.location == route.location
        )

    def one_of_each_location(self) -> list[Route]:
        return list({route.location: route for route in reversed(self._all)}.values())


def whole(route: Route) -> Branch:
    """All that a route leads to."""
    return Branch(route, object_path(route.scope) or b"/")


def without_covered(branches: list[Branch]) -> list[Branch]:
    """The same places, none of them twice."""
    kept: list[Branch] = []
    for branch in sorted(branches, key=lambda branch: len(branch.path)):
        if not any(
            branch.route.location == other.route.location and is_beneath(branch.path, other.path)
            for other in kept
        ):
            kept.append(branch)
    return kept


def plainest(path: bytes) -> bytes:
    """What any origin may take a path for: decoded, backslashes for slashes, without dot segments
    and empty ones, no slash at the end.
    """
    kept: list[bytes] = []
    for segment in unquote_to_bytes(path).replace(b"\\", b"/").split(b"/"):
        if segment == b"..":
            del kept[-1:]
        elif segment not in (b"", b"."):
            kept.append(segment)
    return b"".join(b"/" + segment for segment in kept)
