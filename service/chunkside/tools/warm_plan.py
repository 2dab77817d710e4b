"""What there is to warm: the arrays that a target names, and which of their chunks are held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from chunkside.arrays.consolidated import arrays_beneath
from chunkside.arrays.document import Array, GroupDocument, NotAnArray, parse_array
from chunkside.arrays.grid import Region
from chunkside.tools.admin_client import AdminClient, Answer, Field
from chunkside.tools.errors import ToolFailed

# In the order in which they are asked for: what Zarr v3 has, then v2, then N5.
_DOCUMENTS: Final = ("zarr.json", ".zarray", ".zmetadata", ".zgroup", "attributes.json")
# Some stores say of a key that is missing that one may not read it.
_REFUSED: Final = frozenset({401, 403})
_MAY_BE_ABSENT: Final = frozenset({404, 410}) | _REFUSED
_GROUP_DOCUMENTS: Final = frozenset({".zmetadata", ".zgroup"})
_PAGE_ENTRIES: Final = 1000
# What readers leave as it is in a path.
_PLAIN: Final = "/!$&'()*+,;=:@~"
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class WarmArray:
    """`base`: the array's target without a slash at its end; `query` begins with ?, or is empty."""

    base: str
    query: str
    array: Array
    region: Region

    @property
    def chunks(self) -> int:
        return self.region.count

    def targets(self, held: frozenset[int] = frozenset()) -> Iterator[str]:
        """Of all chunks but those whose ordinals are `held`."""
        spell = self.array.grid.keys.key
        for place, coordinates in enumerate(self.region):
            if place not in held:
                yield f"{self.base}/{spell(coordinates)}{self.query}"

    def ordinal(self, target: str) -> int | None:
        """Of the chunk that a target is, None if of none here."""
        if not target.startswith(f"{self.base}/") or not target.endswith(self.query):
            return None
        key = target[len(self.base) + 1 : len(target) - len(self.query)]
        coordinates = self.array.grid.coordinates(key)
        if coordinates is None or coordinates not in self.region:
            return None
        return self.region.ordinal(coordinates)


@dataclass(frozen=True, slots=True)
class Plan:
    """`document`: the target of what told it. `left_out`: arrays that can't be walked, and why."""

    document: str
    arrays: tuple[WarmArray, ...]
    left_out: tuple[tuple[str, str], ...] = ()


def plan_of(
    data: AdminClient, target: str, fields: Sequence[Field], elements: Sequence[slice]
) -> Plan:
    """Reads metadata documents through the data port. Raises ToolFailed."""
    path, mark, query = target.partition("?")
    query = mark + query
    base, _, name = path.rpartition("/")
    if name in _DOCUMENTS:
        names: Sequence[str] = (name,)
    else:
        base, names = path.rstrip("/"), _DOCUMENTS
    refused = ""
    for name in names:
        document = f"{base}/{name}{query}"
        answer = _answer(data, document, fields)
        if answer.status == 200:
            return _plan(document, base, query, name, answer.body, elements)
        if answer.status not in _MAY_BE_ABSENT:
            raise ToolFailed(f"{document} can't be read: {_said(answer)}")
        if answer.status in _REFUSED:
            refused = f" ({_said(answer)})"
    raise ToolFailed(
        f"there is no array at {base}/: none of {', '.join(names)} can be read{refused}. Name the "
        "array itself"
    )


def _answer(data: AdminClient, target: str, fields: Sequence[Field]) -> Answer:
    answer = data.ask("GET", target, fields)
    if "chunkside" not in answer.cache_status:
        raise ToolFailed(f"what answers at {data.where} is no data port of Chunkside")
    return answer


def _said(answer: Answer) -> str:
    return f"{answer.status} {answer.body[:300].decode(errors='replace')}".rstrip()


def _plan(
    document: str, base: str, query: str, name: str, body: bytes, elements: Sequence[slice]
) -> Plan:
    try:
        if name not in _GROUP_DOCUMENTS:
            array = parse_array(name, body)
            return Plan(document, (_warm_array(base, query, array, elements),))
        beneath = None if name == ".zgroup" else arrays_beneath(name, body)
    except NotAnArray as error:
        beneath = _of_group(name, body, document, error)
    if beneath is None:
        raise ToolFailed(
            f"{document} is of a group without consolidated metadata, which doesn't tell its "
            "arrays: name one of them"
        )
    if elements:
        raise ToolFailed(f"{document} is of a group: --slice goes with one array, name it")
    return _plan_of_group(document, base, query, beneath)


def _of_group(
    name: str, body: bytes, document: str, error: NotAnArray
) -> dict[str, Array | NotAnArray] | None:
    """What Zarr v3 consolidates in the group's own document."""
    if not isinstance(error, GroupDocument) or name == ".zarray":
        raise ToolFailed(f"{document} can't be used. {error}") from error
    return arrays_beneath(name, body) if name == "zarr.json" else None


def _plan_of_group(
    document: str, base: str, query: str, beneath: dict[str, Array | NotAnArray]
) -> Plan:
    arrays, left_out = [], []
    for path, array in sorted(beneath.items()):
        if isinstance(array, NotAnArray):
            left_out.append((path, str(array)))
        else:
            at = f"{base}/{quote(path, safe=_PLAIN)}" if path else base
            arrays.append(_warm_array(at, query, array, ()))
    if not arrays:
        raise ToolFailed(f"{document} is of a group without arrays")
    return Plan(document, tuple(arrays), tuple(left_out))


def _warm_array(base: str, query: str, array: Array, elements: Sequence[slice]) -> WarmArray:
    try:
        return WarmArray(base, query, array, array.grid.region(elements))
    except ValueError as error:
        raise ToolFailed(
            f"--slice doesn't fit the array of {array.grid.rank} dimensions"
        ) from error


def partition_of(admin: AdminClient, document: str, fields: Sequence[Field]) -> str | None:
    """Under which name /entries has what was learned with these fields. Raises ToolFailed."""
    told = admin.members(f"/why{document}", [*fields, ("Accept", "application/json")])
    partition = told.get("partition")
    return partition if isinstance(partition, str) else None


def lifetimes_of(admin: AdminClient, target: str) -> dict[str, float]:
    """`ttl` and `negative_ttl`, in seconds, of the route that a target goes to; none of what is
    without an end, or can't be told.
    """
    try:
        routes = admin.members("/info").get("routes")
    except ToolFailed:
        return {}
    found = [
        each
        for each in (routes if isinstance(routes, list) else [])
        if f"{target}/".startswith(f"{str(each.get('prefix')).rstrip('/')}/")
    ]
    nearest: dict[str, object] = max(found, key=lambda each: len(str(each["prefix"])), default={})
    told = {name: nearest.get(name) for name in ("ttl", "negative_ttl")}
    return {name: value for name, value in told.items() if isinstance(value, (int, float))}


def held_of(admin: AdminClient, array: WarmArray, partition: str | None) -> frozenset[int]:
    """Ordinals of the chunks that are answered without the origin now. Raises ToolFailed."""
    found: set[int] = set()
    cursor: object = ""
    while cursor is not None:
        after = f"&after={cursor}" if cursor else ""
        prefix = quote(array.base or "/", safe="")
        page = admin.members(f"/entries?prefix={prefix}&limit={_PAGE_ENTRIES}{after}")
        entries = page.get("entries")
        for entry in entries if isinstance(entries, list) else []:
            if is_fresh(entry, partition):
                ordinal = array.ordinal(str(entry.get("target")))
                if ordinal is not None:
                    found.add(ordinal)
        cursor = page.get("next")
    return frozenset(found)


def is_fresh(entry: dict[str, object], partition: str | None) -> bool:
    """Whether it answers a GET with no field that an answer varies on."""
    ttl = entry.get("ttl")
    shared = (_ALL,) if entry.get("kind") == "body" else ()
    is_mine = entry.get("partition") in (partition, *shared)
    return (
        entry.get("kind") in ("body", "marker")
        and entry.get("variant") is None
        and not entry.get("must_validate")
        and (ttl == "infinity" or (isinstance(ttl, (int, float)) and ttl > 0))
        and is_mine
    )
