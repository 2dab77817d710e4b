"""The sidecar of the demo, as its own process: what `chunkside serve` is to everyone else."""

from contextlib import AbstractContextManager
from pathlib import Path

from chunkside.child import Sidecar, child


def sidecar(
    upstream: str, cache_dir: Path, *, port: int, admin_port: int
) -> AbstractContextManager[Sidecar]:
    """As `child` does."""
    return child(
        [
            *("--upstream", upstream),
            *("--listen", f"127.0.0.1:{port}", "--admin-listen", f"127.0.0.1:{admin_port}"),
            # A few megabytes, on whatever disk there is.
            *("--cache-dir", str(cache_dir), "--min-free", "0"),
            # Whatever the environment says: this one has its one upstream.
            *("--routes", "[]"),
            # It is the demo that talks, and it reads what the sidecar prints.
            *("--log-format", "console", "--log-level", "warning", "--log-requests", "0"),
        ]
    )
