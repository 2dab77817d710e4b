"""What the demo prints: what is read, what each pass cost, and what it should not have cost."""

from chunkside.demo.array import CHUNKS_PER_SIDE, SparseArray
from chunkside.demo.passes import Cost

_COLUMNS = ("pass", "seconds", "requests by readers", "metadata", "present", "absent")


def heading(sparse: SparseArray, readers: int, delay_seconds: float) -> str:
    at_once = "1 reader" if readers == 1 else f"{readers} readers at once"
    return (
        f"A sparse Zarr v3 array of {CHUNKS_PER_SIDE} x {CHUNKS_PER_SIDE} chunks, "
        f"{len(sparse.present_chunks)} present and {len(sparse.absent_chunks)} absent; {at_once}; "
        f"the origin waits {delay_seconds * 1000:.0f} ms before each answer.\n"
    )


def table(costs: list[Cost]) -> str:
    rows = [_row(cost) for cost in costs]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if number == 0 else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in (_COLUMNS, *rows)
    ]
    indent = sum(widths[:3]) + 2 * 3
    return "\n".join([" " * indent + "requests at the origin", *lines, ""])


def differences(sparse: SparseArray, costs: list[Cost]) -> list[str]:
    """What is not as it should be, a line each; `costs` are of the straight, first, second pass."""
    _, first, second = costs
    found = [
        f"{cost.name}: the data differ from what was written" for cost in costs if not cost.is_equal
    ]
    chunks = {f"{sparse.name}/{key}" for key in sparse.present_chunks | sparse.absent_chunks}
    wrong = {key: first.origin.chunks[key] for key in chunks if first.origin.chunks[key] != 1}
    if wrong:
        key, count = min(wrong.items())
        found.append(
            f"{first.name}: {len(wrong)} chunks were not asked for exactly once at the origin, "
            f"such as {key} ({count} times)"
        )
    if second.origin.chunks:
        key, count = min(second.origin.chunks.items())
        found.append(
            f"{second.name}: {second.origin.chunks.total()} requests for chunks at the origin, "
            f"such as {key} ({count} times)"
        )
    return found


def _row(cost: Cost) -> tuple[str, ...]:
    kinds = cost.origin.kinds
    counts = (cost.reader_requests, kinds["metadata"], kinds["present"], kinds["absent"])
    return (cost.name, f"{cost.seconds:.2f}", *(str(count) for count in counts))
