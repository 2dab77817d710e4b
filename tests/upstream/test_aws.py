"""AWS's chain of credentials: what it finds, what that is called, and how it is renewed."""

import asyncio
import datetime as dt
import json
import re
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from botocore.credentials import RefreshableCredentials

from chunkside.gateway.errors import OriginNotAsked
from chunkside.upstream import aws
from chunkside.upstream import chain as chains
from chunkside.upstream.aws import AWS, Keys, ca_bundle, endpoint, find, region
from chunkside.upstream.chain import Chain, Found, Library, LookupFailed

_AWS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    *("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_CA_BUNDLE"),
)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Nothing of the developer's own."""
    for name in _AWS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def test_where_there_are_none_nobody_signs():
    assert find(is_required=False) is None
    assert region() is None


def test_static_keys_are_known_by_their_id(monkeypatch, home):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKENV")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    found = find(is_required=False)
    assert found is not None and found.identity == "aws env AKENV"
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    (home / "credentials").write_text("[default]\naws_access_key_id=AKF\naws_secret_access_key=s\n")
    found = find(is_required=False)
    assert found is not None and found.identity == "aws shared-credentials-file AKF"


def test_what_rotates_is_known_by_the_profile_that_leads_to_it(home, monkeypatch):
    (home / "credentials").write_text(
        "[work]\naws_access_key_id=AKTEMP\naws_secret_access_key=s\naws_session_token=t\n"
    )
    monkeypatch.setenv("AWS_PROFILE", "work")
    found = find(is_required=False)
    assert found is not None and found.identity == "aws shared-credentials-file work"


def test_a_process_may_give_them(home):
    told = {"Version": 1, "AccessKeyId": "AKP", "SecretAccessKey": "s", "SessionToken": "t"}
    script = home / "give.py"
    script.write_text(f"print({json.dumps(json.dumps(told))})")
    (home / "config").write_text(
        f"[default]\nregion = eu-west-3\ncredential_process = {sys.executable} {script}\n"
    )
    found = find(is_required=False)
    assert found is not None and found.identity == "aws custom-process default"
    assert region() == "eu-west-3"


async def test_those_that_are_required_are_looked_for_again(monkeypatch):
    chain = find(is_required=True)
    assert chain is not None
    other = find(is_required=True)
    assert other is not None and other.identity != chain.identity
    with pytest.raises(OriginNotAsked, match="chain of credentials"):
        await chain.secret()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKLATE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    assert (await chain.secret()).access_key == "AKLATE"


class Rotating:
    """What gives other keys each time, each good for some seconds; slow once it is held."""

    def __init__(self, *seconds):
        self.left = list(seconds)
        self.gate = threading.Event()
        self.gate.set()
        self.count = 0

    def give(self):
        self.gate.wait(20)
        if not self.left:
            raise OSError("the metadata service is gone")
        self.count += 1
        now = dt.datetime.now(dt.UTC)
        ends = now + dt.timedelta(seconds=self.left.pop(0))
        return {
            "access_key": f"AK{self.count}",
            "secret_key": "s3cr3t",
            "token": "t",
            "expiry_time": ends.isoformat(),
        }

    def chain(self):
        source = RefreshableCredentials.create_from_metadata(self.give(), self.give, "iam-role")
        keys = Keys("AK1", "s3cr3t", "t")
        return Chain(AWS, Found(keys, "aws iam-role default", source, source.refresh_needed))


async def test_they_are_renewed_ahead_of_expiry_and_nobody_waits_for_it():
    # Within botocore's quarter of an hour, and beyond its ten minutes.
    rotating = Rotating(800, 3600)
    chain = rotating.chain()
    rotating.gate.clear()
    assert (await chain.secret()).access_key == "AK1"
    assert (await chain.secret()).access_key == "AK1"
    rotating.gate.set()
    assert chain._looking is not None
    await chain._looking
    assert (await chain.secret()).access_key == "AK2"


async def test_those_that_expired_are_waited_for(monkeypatch):
    monkeypatch.setattr(chains, "_LONGEST_WAIT_SECONDS", 20.0)
    rotating = Rotating(3600, 3600)
    chain = rotating.chain()
    source = chain._found.source
    source._expiry_time = dt.datetime.now(dt.UTC)
    assert (await chain.secret()).access_key == "AK2"


async def test_where_they_cant_be_renewed_they_are_used_to_their_end(caplog):
    rotating = Rotating(300)
    chain = rotating.chain()
    assert (await chain.secret()).access_key == "AK1"
    assert chain._looking is not None
    await chain._looking
    assert (await chain.secret()).access_key == "AK1"
    chain._found.source._expiry_time = dt.datetime.now(dt.UTC)
    with pytest.raises(OriginNotAsked):
        await chain.secret()
    assert "s3cr3t" not in caplog.text


async def test_refused_ones_are_looked_up_anew_and_only_the_same_identitys_count(
    monkeypatch, home, caplog
):
    def write(key, token="t"):
        more = f"aws_session_token={token}\n" if token else ""
        (home / "credentials").write_text(
            f"[default]\naws_access_key_id={key}\naws_secret_access_key=s3cr3t\n{more}"
        )

    write("AK1")
    chain = find(is_required=False)
    assert chain is not None
    first = await chain.secret()
    write("AK2")
    second = await chain.secret_after(first, None)
    assert second is not None and second.access_key == "AK2"
    # What was refused of others meanwhile was exchanged already.
    assert await chain.secret_after(first, None) == second
    monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 0.0)
    write("AK3", token="")
    assert await chain.secret_after(second, None) is None
    assert "restart to read with that" in caplog.text
    assert "s3cr3t" not in caplog.text


async def test_what_the_store_refuses_is_said_once_until_there_is_another(home, caplog):
    def write(secret):
        text = f"[default]\naws_access_key_id=AK\naws_secret_access_key={secret}\n"
        (home / "credentials").write_text(text)

    write("wr0ng")
    chain = find(is_required=False)
    assert chain is not None
    refused = await chain.secret()
    # A HEAD's 403 may be of anything.
    assert await chain.secret_after(refused, None) is None
    assert "refuses" not in caplog.text
    for _ in range(3):
        assert await chain.secret_after(refused, b"SignatureDoesNotMatch") is None
    said = (
        "the store refuses what AWS's chain of credentials finds (aws shared-credentials-file AK)"
    )
    assert caplog.text.count(f"{said}: SignatureDoesNotMatch") == 1
    assert "wr0ng" not in caplog.text


async def test_a_refusal_of_keys_that_are_others_each_time_is_said_once(monkeypatch, caplog):
    monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 0.0)
    looked: list[int] = []

    def look_up(_):
        looked.append(len(looked))
        return Found(Keys(f"ASIA{len(looked)}", "s", "t"), "aws role", None, lambda _: False)

    chain = Chain(Library("aws", "AWS's", look_up), look_up(None))
    for _ in range(4):
        refused = await chain.secret()
        newer = await chain.secret_after(refused, b"InvalidAccessKeyId")
        assert newer is not None
        # The others are refused, too, within the seconds in which nobody looks again.
        monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 5.0)
        assert await chain.secret_after(newer, b"InvalidAccessKeyId") is None
        monkeypatch.setattr(chains, "_LOOK_AGAIN_SECONDS", 0.0)
    assert caplog.text.count("the store refuses what") == 1


async def test_what_was_just_renewed_and_is_refused_is_looked_up_anew():
    rotating = Rotating(800, 3600)
    chain = rotating.chain()
    first = await chain.secret()
    assert chain._looking is not None
    await chain._looking
    # Withdrawn a moment after it was given.
    second = await chain.secret()
    assert (first.access_key, second.access_key) == ("AK1", "AK2")
    looked = []

    def look_up(held):
        looked.append(held)
        return Found(Keys("AK3", "s3cr3t", "t"), chain.identity, None, lambda _: False)

    chain._library = Library("aws", "AWS's", look_up)
    third, fourth = await asyncio.gather(
        chain.secret_after(second, None), chain.secret_after(second, None)
    )
    assert third == fourth and third is not None and third.access_key == "AK3"
    assert looked == [None]


async def test_those_that_were_given_for_a_moment_are_looked_for_once_that_is_over():
    rotating = Rotating(1, 3600)
    chain = rotating.chain()
    chain._looked_at[False] = asyncio.get_running_loop().time()
    source = chain._found.source
    assert (await chain.secret()).access_key == "AK1"
    source._expiry_time = dt.datetime.now(dt.UTC)
    assert (await chain.secret()).access_key == "AK2"


@pytest.mark.parametrize("brings", ["a failure", "what has ended"])
@pytest.mark.parametrize("looks", [2, 9])
async def test_what_ended_while_others_were_looked_for_is_looked_for_again(brings, looks):
    is_over, looked = threading.Event(), []
    held = Found(Keys("AK1", "s3cr3t", "t"), "aws", None, lambda left: left > 0 or is_over.is_set())

    def look_up(_):
        is_over.set()
        looked.append(brings)
        if len(looked) == looks:
            return Found(Keys("AK2", "s3cr3t", "t"), "aws", None, lambda _: False)
        if brings == "a failure":
            raise LookupFailed("RuntimeError")
        return held

    chain = Chain(Library("aws", "AWS's", look_up), held)
    reads = [asyncio.create_task(chain.secret()) for _ in range(3)]
    if looks == 2:
        assert {(await read).access_key for read in reads} == {"AK2"}
    else:
        for read in reads:
            with pytest.raises(OriginNotAsked):
                await read
    # By the look itself, and by those who saw it of use.
    assert len(looked) == (2 if looks == 2 else 3)


async def test_what_ends_while_a_read_looks_at_it_is_looked_for():
    looks_at_it = [False, False]

    def is_over(seconds):
        return seconds > 0 or (looks_at_it.pop() if looks_at_it else True)

    def found(name, ends):
        return Found(Keys(name, "s3cr3t", "t"), "aws", None, ends)

    library = Library("aws", "AWS's", lambda _: found("AK2", lambda _: False))
    chain = Chain(library, found("AK1", is_over))
    # Nobody looks twice within seconds, for as long as what there is will do.
    chain._looked_at[False] = asyncio.get_running_loop().time()
    assert (await chain.secret()).access_key == "AK2"


async def test_what_a_process_says_when_it_fails_is_not_logged(home, caplog):
    # Within botocore's quarter of an hour, and beyond its ten minutes.
    ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=700)
    keys = {"Version": 1, "AccessKeyId": "AK", "SecretAccessKey": "s", "SessionToken": "t"}
    told = json.dumps({**keys, "Expiration": ends.isoformat()})
    process = home / "process"
    process.write_text(
        f"#!/bin/sh\nif [ -e $0.ran ]; then echo s3cr3t >&2; exit 1; fi\n"
        f"touch $0.ran\necho '{told}'\n"
    )
    process.chmod(0o700)
    (home / "config").write_text(f"[default]\ncredential_process = {process}\n")
    chain = find(is_required=False)
    assert chain is not None and chain.is_known
    assert (await chain.secret()).access_key == "AK"
    assert chain._looking is not None
    await chain._looking
    assert (home / "process.ran").exists()
    assert "s3cr3t" not in caplog.text


@contextmanager
def answering(body):
    """A service that says the same to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing is told."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_an_answer_that_is_cut_off_is_not_logged(home, monkeypatch, caplog):
    answer = b"<AssumeRoleWithWebIdentityResponse><SecretAccessKey>s3cr3t</SecretAccessKey><Sess"
    with answering(answer) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/reader")
        (home / "token").write_text("token")
        monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(home / "token"))
        chain = find(is_required=True)
        assert chain is not None and not chain.is_known
    assert "AWS's chain of credentials failed: ResponseParserError" in caplog.text
    assert "s3cr3t" not in caplog.text


def test_a_chain_that_fails_is_none_that_finds_none(home, caplog):
    AWS._told.clear()
    (home / "config").write_text("[default]\ncredential_process = /no/such/process\n")
    found = find(is_required=False)
    assert found is not None and not found.is_known
    find(is_required=True)
    # Whoever looks again and again says it once.
    assert caplog.text.count("chain of credentials failed") == 1
    (home / "config").unlink()
    for _ in range(2):
        assert find(is_required=True) is not None
    assert caplog.text.count("chain of credentials finds none") == 1


@pytest.mark.parametrize(
    "told", ["[]", '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": 5}']
)
async def test_what_botocore_makes_nothing_of_is_looked_for_again(home, caplog, told):
    AWS._told.clear()
    process = home / "process"
    process.write_text(f"#!/bin/sh\necho '{told}'\n")
    process.chmod(0o700)
    (home / "config").write_text(f"[default]\ncredential_process = {process}\n")
    found = find(is_required=False)
    assert found is not None and not found.is_known
    # Nor does that end the look of whoever waits.
    with pytest.raises(OriginNotAsked, match="AWS's chain of credentials gives none"):
        await found.secret()
    assert re.search("chain of credentials failed: (Attribute|Type)Error", caplog.text)


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ("[default]\nregion = a\n", None),
        ("[default]\nendpoint_url = http://all\n", "http://all"),
        (
            (
                "[default]\nendpoint_url = http://all\nservices = lab\n"
                "[services lab]\ns3 =\n  endpoint_url = http://s3\n"
            ),
            "http://s3",
        ),
        ("[default]\nservices = gone\nendpoint_url = http://all\n", "http://all"),
        ("[default]\nservices = odd\n[services odd]\ns3 = http://s3\n", None),
        ("[default]\nservices =\n  s3 = http://s3\n", None),
        (
            "[default]\nendpoint_url = http://all\nignore_configured_endpoint_urls = true\n",
            None,
        ),
    ],
    ids=[
        "none",
        "all",
        "of a service",
        "of services that aren't there",
        "odd",
        "nested",
        "ignored",
    ],
)
def test_where_configuration_has_s3_asked_is_known(home, config, told):
    (home / "config").write_text(config)
    assert endpoint() == told


def test_the_environment_goes_before_the_configuration(home, monkeypatch):
    (home / "config").write_text("[default]\nendpoint_url = http://all\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://environment")
    assert endpoint() == "http://environment"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    assert endpoint() == "http://s3"
    monkeypatch.setattr(aws, "is_installed", lambda: False)
    assert endpoint() == "http://s3"
    monkeypatch.undo()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3")
    monkeypatch.setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true")
    assert endpoint() is None


def test_authorities_of_the_configuration_are_known(home, monkeypatch):
    assert ca_bundle() is None
    (home / "config").write_text("[default]\nca_bundle = /a.pem\n")
    assert ca_bundle() == "/a.pem"
    monkeypatch.setenv("AWS_CA_BUNDLE", "/b.pem")
    assert ca_bundle() == "/b.pem"


@pytest.mark.parametrize(
    ("profile", "config", "kind"),
    [("nobody", "", "ProfileNotFound"), ("default", "no section", "ConfigParseError")],
)
def test_a_configuration_that_cant_be_read_names_no_region(
    home, monkeypatch, caplog, profile, config, kind
):
    # It is asked for without credentials, too.
    monkeypatch.setenv("AWS_PROFILE", profile)
    (home / "config").write_text(config)
    assert region() is None
    assert f"AWS's configuration can't be read ({kind})" in caplog.text
