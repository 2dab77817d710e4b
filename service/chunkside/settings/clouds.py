"""The clouds whose object stores are asked: what `upstream_auth` calls the credentials that each
one's own library finds. An extra of the same name brings the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final


@dataclass(frozen=True, slots=True)
class Cloud:
    """`file_variable`: by what its library finds a file with credentials; "" where
    `upstream_auth_file` names that.
    """

    auth: str
    whose: str
    library: str
    file_variable: str = ""

    @property
    def is_installed(self) -> bool:
        package, _, _ = self.library.partition(".")
        return find_spec(package) is not None and find_spec(self.library) is not None


CLOUDS: Final = {
    "s3": Cloud("aws", "AWS's", "botocore", "AWS_SHARED_CREDENTIALS_FILE"),
    "gs": Cloud("gcp", "Google's", "google.auth", "GOOGLE_APPLICATION_CREDENTIALS"),
    "az": Cloud("azure", "Azure's", "azure.identity"),
}
"""By the scheme of their upstreams."""
