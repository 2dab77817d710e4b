"""Files of credentials as Google's own tools write them, whose tokens a server of ours gives."""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.google import ACCOUNT, PROJECT

AUDIENCE = "//iam.googleapis.com/projects/123/locations/global/workloadIdentityPools/p/providers/k"


@cache
def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def service_account(home: Path, token_url: str, account: str = ACCOUNT) -> dict[str, str]:
    """The environment that names them."""
    told = {
        "type": "service_account",
        "project_id": PROJECT,
        "private_key_id": "1",
        "private_key": private_key(),
        "client_email": account,
        "token_uri": f"{token_url}/token",
    }
    return _named(home / "service_account.json", told)


def workload_identity(home: Path, token_url: str) -> dict[str, str]:
    """A token of Kubernetes', to be exchanged."""
    home.mkdir(parents=True, exist_ok=True)
    subject = home / "subject"
    subject.write_text("kub3rn3t3s-t0ken", encoding="utf-8")
    told = {
        "type": "external_account",
        "audience": AUDIENCE,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": f"{token_url}/v1/token",
        "credential_source": {"file": str(subject)},
    }
    return _named(home / "workload.json", told)


def machine(authority: str) -> dict[str, str]:
    """No file: what the metadata service at this place gives."""
    return {
        "GCE_METADATA_HOST": authority,
        "GCE_METADATA_IP": authority,
        "CLOUDSDK_CONFIG": "/nowhere",
    }


def _named(file: Path, told: Mapping[str, object]) -> dict[str, str]:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(told), encoding="utf-8")
    return {"GOOGLE_APPLICATION_CREDENTIALS": str(file)}
