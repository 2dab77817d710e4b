"""The clouds whose object stores are asked: what their credentials are called, which library finds
them, and where they lie.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final


@dataclass(frozen=True, slots=True)
class Cloud:
    """`auth`: what `upstream_auth` calls its credentials, and the name of the extra that brings
    `library`, which finds them. `file_variable`: by what that finds a file with credentials; ""
    where `upstream_auth_file` names it. `variables` of the environment and `files` in the home
    directory are where credentials lie.
    """

    auth: str
    whose: str
    library: str
    file_variable: str
    variables: tuple[str, ...]
    files: tuple[str, ...] = ()

    @property
    def is_installed(self) -> bool:
        package, _, _ = self.library.partition(".")
        return find_spec(package) is not None and find_spec(self.library) is not None


CLOUDS: Final = {
    "s3": Cloud(
        auth="aws",
        whose="AWS's",
        library="botocore",
        file_variable="AWS_SHARED_CREDENTIALS_FILE",
        variables=(
            "AWS_ACCESS_KEY_ID",
            "AWS_PROFILE",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
            "AWS_SHARED_CREDENTIALS_FILE",
        ),
        files=(".aws/credentials",),
    ),
    "gs": Cloud(
        auth="gcp",
        whose="Google's",
        library="google.auth",
        file_variable="GOOGLE_APPLICATION_CREDENTIALS",
        variables=("GOOGLE_APPLICATION_CREDENTIALS",),
        files=(".config/gcloud/application_default_credentials.json",),
    ),
    "az": Cloud(
        auth="azure",
        whose="Azure's",
        library="azure.identity",
        file_variable="",
        variables=(
            "AZURE_STORAGE_CONNECTION_STRING",
            "AZURE_STORAGE_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
            "AZURE_STORAGE_SAS_TOKEN",
            "AZURE_CLIENT_ID",
            "AZURE_FEDERATED_TOKEN_FILE",
        ),
    ),
}
"""By the scheme of their upstreams."""
