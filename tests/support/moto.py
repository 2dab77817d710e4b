"""moto as a real S3: the emulator in its own process, with its own interpreter."""

import http.client
import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

from chunkside.upstream.aws import Keys
from tests.support.deadline import DEADLINE_SECONDS, wait_for
from tests.support.nginx import answers, free_port


@contextmanager
def moto(python: str, environment: Mapping[str, str] | None = None) -> Iterator[str]:
    """An empty store, and its URL with no slash at its end. `environment`: beside this one."""
    port = free_port()
    with subprocess.Popen(
        [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
    ) as process:
        try:
            wait_for(lambda: answers(port), "the S3 emulator to listen")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(DEADLINE_SECONDS)


# So many actions nobody has to sign: those that make a user.
VERIFIES = {"INITIAL_NO_AUTH_ACTION_COUNT": "3"}
_MAKE_USER = """
import json, sys, boto3
of_nobody = {"aws_access_key_id": "a", "aws_secret_access_key": "a", "region_name": "us-east-1"}
iam = boto3.client("iam", endpoint_url=sys.argv[1], **of_nobody)
iam.create_user(UserName="u")
may_all = {"Effect": "Allow", "Action": "*", "Resource": "*"}
policy = json.dumps({"Version": "2012-10-17", "Statement": [may_all]})
iam.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=policy)
key = iam.create_access_key(UserName="u")["AccessKey"]
print(json.dumps([key["AccessKeyId"], key["SecretAccessKey"]]))
"""


# Beside a user's three: those that make a role, and one that takes it by a token of the web's.
VERIFIES_WITH_A_ROLE = {"INITIAL_NO_AUTH_ACTION_COUNT": "6"}
_MAKE_ROLE = """
import json, sys, boto3
of_nobody = {"aws_access_key_id": "a", "aws_secret_access_key": "a", "region_name": "us-east-1"}
iam = boto3.client("iam", endpoint_url=sys.argv[1], **of_nobody)
role = iam.create_role(RoleName="reader", AssumeRolePolicyDocument="{}")["Role"]
may_all = {"Effect": "Allow", "Action": "*", "Resource": "*"}
policy = json.dumps({"Version": "2012-10-17", "Statement": [may_all]})
iam.put_role_policy(RoleName="reader", PolicyName="p", PolicyDocument=policy)
print(role["Arn"])
"""


def make_role(python: str, url: str) -> str:
    """Its name. Who takes it may do all."""
    command = [python, "-c", _MAKE_ROLE, url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_user(python: str, url: str) -> Keys:
    """Of one that VERIFIES: by these keys all may be done, and by no others anything."""
    command = [python, "-c", _MAKE_USER, url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    access_key, secret_key = json.loads(done.stdout)
    return Keys(access_key, secret_key, None)


def upload(url: str, bucket: str, folder: Path) -> None:
    """Makes a bucket that anybody may read, of all files beneath a folder."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)) as connection:
        _put(connection, f"/{bucket}", b"")
        for file in files:
            key = quote(str(file.relative_to(folder)))
            _put(connection, f"/{bucket}/{key}", file.read_bytes())


def _put(connection: http.client.HTTPConnection, target: str, body: bytes) -> None:
    connection.request("PUT", target, body, {"x-amz-acl": "public-read"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200, f"PUT {target}: {answer.status}"
