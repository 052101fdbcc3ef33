"""The webhook takes only what is signed, keeps each delivery once, and reads no more of it than it needs."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn
from fastapi.testclient import TestClient

from bot import webhook
from bot.events import EVENT, Event, PullRequestChanged, Pushed, Reviewed, Unreadable, parse

SECRET = b"a secret that only two know"
REPOSITORY = {"repository": {"full_name": "o/r"}, "sender": {"login": "ada"}}
PUSH = {"ref": "refs/heads/main", "before": "1" * 40, "after": "2" * 40, **REPOSITORY}
PULL = {"action": "opened", "number": 7, "pull_request": {"number": 7, "head": {"ref": "faster", "sha": "3" * 40}}, **REPOSITORY}


class Kept:
    """A claim that keeps events by GUID, or is too busy."""

    def __init__(self) -> None:
        self.events: dict[str, Event] = {}
        self.busy = False

    def __call__(self, delivery: str, event: Event) -> bool:
        if self.busy:
            raise TimeoutError
        return self.events.setdefault(delivery, event) is event


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def client(kept: Kept) -> TestClient:
    return TestClient(webhook.create_app(SECRET, kept))


def send(client: TestClient, payload: Any = PUSH, *, body: bytes | None = None, **headers: str) -> int:
    data = json.dumps(payload).encode() if body is None else body
    given = {
        "X-Hub-Signature-256": webhook.signature(SECRET, data),
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-GitHub-Event": "push",
        "Content-Type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return client.post("/webhook", content=data, headers=given).status_code


def test_a_signed_delivery_is_kept_once(client: TestClient, kept: Kept) -> None:
    assert send(client) == 202
    assert send(client) == 202
    assert list(kept.events.values()) == [Pushed(repository="o/r", sender="ada", branch="main", after="2" * 40)]


@pytest.mark.parametrize(
    "given", ["", "sha256=", "sha256=" + "0" * 64, "sha1=" + "0" * 40, "sha256=ü", webhook.signature(b"another", json.dumps(PUSH).encode())]
)
def test_what_is_not_signed_is_refused_unread(client: TestClient, kept: Kept, given: str) -> None:
    data = json.dumps(PUSH).encode()
    headers = {b"X-Hub-Signature-256": given.encode(), b"X-GitHub-Delivery": b"a", b"X-GitHub-Event": b"push"}
    assert client.post("/webhook", content=data, headers=list(headers.items())).status_code == 401
    assert not kept.events


def test_a_delivery_without_a_signature_is_refused_whatever_else_it_lacks(client: TestClient) -> None:
    answer = client.post("/webhook", content=b"{")
    assert (answer.status_code, "X-Hub-Signature-256" in answer.text) == (401, True)


def test_signatures_are_compared_in_constant_time(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def refuse(ours: bytes, given: bytes) -> bool:
        compared.append(given)
        return False

    monkeypatch.setattr("hmac.compare_digest", refuse)
    assert send(client) == 401
    assert compared == [webhook.signature(SECRET, json.dumps(PUSH).encode()).encode()]


def test_the_signature_is_over_the_raw_body(client: TestClient) -> None:
    spaced = json.dumps(PUSH, indent=3).encode()
    assert send(client, body=spaced) == 202
    assert send(client, body=spaced, X_Hub_Signature_256=webhook.signature(SECRET, json.dumps(PUSH).encode())) == 401


def test_a_delivery_that_says_it_is_too_large_is_not_read(client: TestClient, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "MAX_BYTES", 100)
    assert send(client) == 413
    assert not kept.events


def test_a_busy_bot_asks_for_the_delivery_again(client: TestClient, kept: Kept) -> None:
    kept.busy = True
    assert send(client) == 503


class Server(uvicorn.Server):
    """Leaves signals to the tests."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def serving(claim: webhook.Claim) -> Iterator[socket.socket]:
    """A connection to a webhook that is really served."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Server(
            uvicorn.Config(webhook.create_app(SECRET, claim), log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            with socket.create_connection(listener.getsockname(), timeout=20) as connection:
                yield connection
        finally:
            server.should_exit = True
            thread.join()


def head(*more: str) -> bytes:
    signed = webhook.signature(SECRET, json.dumps(PUSH).encode())
    lines = [
        "POST /webhook HTTP/1.1",
        "Host: bot",
        "Content-Type: application/json",
        "X-GitHub-Event: push",
        "X-GitHub-Delivery: 72d3162e-cc78-11e3-81ab-4c9367dc0958",
        f"X-Hub-Signature-256: {signed}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def status(connection: socket.socket) -> int:
    return int(connection.recv(4096).split()[1])


def test_an_endless_delivery_is_read_only_as_far_as_is_allowed(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "MAX_BYTES", 100_000)
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    with serving(kept) as connection:
        connection.sendall(head("Transfer-Encoding: chunked") + chunk * 11)
        assert status(connection) == 413
    assert not kept.events


def test_a_delivery_in_chunks_is_taken(kept: Kept) -> None:
    body = json.dumps(PUSH).encode()
    halves = [body[:50], body[50:], b""]
    with serving(kept) as connection:
        connection.sendall(head("Transfer-Encoding: chunked") + b"".join(b"%x\r\n%s\r\n" % (len(half), half) for half in halves))
        assert status(connection) == 202
    assert len(kept.events) == 1


def test_a_delivery_that_never_ends_is_given_up(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "READ_SECONDS", 0.1)
    with serving(kept) as connection:
        connection.sendall(head("Content-Length: 500") + b"{")
        assert status(connection) == 408


def test_a_claim_that_takes_too_long_is_answered_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "CLAIM_SECONDS", 0.1)
    released = threading.Event()
    body = json.dumps(PUSH).encode()
    with serving(lambda *_: released.wait(20)) as connection:
        connection.sendall(head(f"Content-Length: {len(body)}") + body)
        assert status(connection) == 503
        assert not released.is_set()
        released.set()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"push"', b"\xff", b"{}", b'{"ref": 3, "repository": null}', b"[" * 100_000])
def test_what_is_signed_and_unreadable_is_told(client: TestClient, kept: Kept, body: bytes) -> None:
    assert send(client, body=body) == 400
    assert not kept.events


def test_a_delivery_needs_a_guid(client: TestClient) -> None:
    assert send(client, X_GitHub_Delivery="../../etc") == 400


def test_a_delivery_needs_a_name_and_must_be_json(client: TestClient, kept: Kept) -> None:
    assert send(client, X_GitHub_Event="") == 400
    assert send(client, Content_Type="application/x-www-form-urlencoded") == 415
    assert send(client, Content_Type="application/json; charset=utf-8") == 202
    assert len(kept.events) == 1


def test_what_bots_do_and_what_happens_elsewhere_is_of_no_use(kept: Kept) -> None:
    client = TestClient(webhook.create_app(SECRET, kept, "O/r"))
    assert send(client, {**PUSH, "sender": {"login": "other[bot]", "type": "Bot"}}) == 202
    assert send(client, {**PUSH, "repository": {"full_name": "o/other"}}) == 202
    assert not kept.events
    assert send(client, {**PUSH, "sender": {"login": "ada", "type": "User"}}) == 202
    assert len(kept.events) == 1


def test_what_the_bot_has_no_use_for_is_taken_and_dropped(client: TestClient, kept: Kept) -> None:
    assert send(client, X_GitHub_Event="star") == 202
    assert send(client, {**PUSH, "ref": "refs/tags/v1"}) == 202
    assert not kept.events


def test_a_webhook_without_a_secret_is_refused(kept: Kept) -> None:
    with pytest.raises(ValueError, match="secret"):
        webhook.create_app(b"", kept)


@pytest.mark.parametrize(
    ("name", "payload", "event"),
    [
        ("push", PUSH, Pushed(repository="o/r", sender="ada", branch="main", after="2" * 40)),
        ("push", {**PUSH, "after": "0" * 40}, Pushed(repository="o/r", sender="ada", branch="main", after=None)),
        ("pull_request", PULL, PullRequestChanged(repository="o/r", sender="ada", number=7, branch="faster")),
        (
            "pull_request_review",
            {**PULL, "review": {"state": "approved"}},
            Reviewed(repository="o/r", sender="ada", number=7, branch="faster"),
        ),
    ],
)
def test_events_are_read_and_kept_as_json(name: str, payload: Any, event: Event) -> None:
    read = parse(name, json.dumps(payload).encode())
    assert read == event
    assert EVENT.validate_json(EVENT.dump_json(event)) == event


def test_a_delivery_of_the_wrong_shape_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="pull_request delivery"):
        parse("pull_request", json.dumps(PUSH).encode())


def test_campaigns_are_told_to_whoever_knows_the_secret_and_to_nobody_else(kept: Kept) -> None:
    asked: list[str] = []
    told = [{"campaign": "private-1"}]
    client = TestClient(webhook.create_app(SECRET, kept, campaigns=lambda: asked.append("forge") or told))
    push = webhook.signature(SECRET, json.dumps(PUSH).encode())
    for header in ("", "Bearer", "Bearer x", f"Bearer {push}", f"Bearer {webhook.reading(b'another')}", webhook.reading(SECRET)):
        assert client.get("/campaigns", headers={"Authorization": header}).status_code == 401
    assert client.get("/campaigns").status_code == 401
    assert asked == [], "each answer costs the forge's requests"
    answer = client.get("/campaigns", headers={"Authorization": f"Bearer {webhook.reading(SECRET)}"})
    assert (answer.status_code, answer.json()) == (200, told)


def test_without_campaigns_there_is_nothing_to_ask_for(client: TestClient) -> None:
    assert client.get("/campaigns").status_code == 404
