"""Every route that the client calls is listed, and nothing else is; all that it asks and hears is as GitHub describes it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from description import CLIENT, Listener
from github import UnknownObjectException
from github_place import NAME, Place, place_in
from test_github_faults import keep

from bot.github.client import Repository
from bot.hosting import Annotation

WORKFLOW = b"name: evaluate\non: workflow_dispatch\njobs: {}\n"


def test_the_client_calls_exactly_the_routes_that_are_listed(place: Place, tmp_path: Path) -> None:
    heard = [Listener(place.forge.app.login), Listener("ada")]
    for listener in heard:
        place.forge.listen(listener)
    place.main = place.clone.commit(place.main, {".github/workflows/evaluate.yml": WORKFLOW}, "A workflow")
    place.clone.push(f"{place.main}:refs/heads/main")
    called_by_the_app(place, tmp_path)
    called_by_a_person(place.as_person("ada"), place.main)
    assert [wrong for listener in heard for wrong in listener.wrong] == []
    assert heard[0].called | heard[1].called == CLIENT


def called_by_the_app(place: Place, folder: Path) -> None:
    """Everything that the client can do as an App."""
    client = place.repository
    number, head = place.pull()
    client.head("x")
    client.pull_requests("all")
    client.edit_pull_request(number, "New", "New")
    client.request_review(number)
    place.forge.misbehave("doubled_comment")
    for text in ("one", "two"):
        client.kept_comment(number, "result", text)
    issue = client.kept_issue("campaign c", "Campaign c", "one")
    client.kept_issue("campaign c", "Campaign c", "two")
    client.close(issue)
    notes = [Annotation("a.txt", 1, 1, f"fault {at}") for at in range(60)]
    client.check(head, "c/1", "completed", "failure", "60 faults", "Summary", notes)
    client.file_url(head, "a.txt")
    place.tokens["bob"] = place.forge.add_user("bob", write=True)
    place.person("bob").get_pull(number).create_review(body="good", event="APPROVE")
    client.reviews(number)
    place.forge.webhook("http://127.0.0.1:9/", "secret")
    place.forge.misbehave("delivery_fails", path="pull_request")
    assert client.merge(number, head, "Title", "Text").merged
    client.redeliver_failed()
    place.forge.misbehave("run_hangs")
    begun = datetime.now(UTC)
    run = client.dispatch("evaluate.yml", "main", {}, "evaluate", begun)
    client.started("evaluate.yml", "main", "evaluate", begun)
    client.run(run)
    client.cancel(run)
    client.artifact(keep(place, folder, b"zip"), "result", 100)
    second, _ = place.pull("y")
    client.close(second)


def called_by_a_person(client: Repository, sha: str) -> None:
    """What the client does otherwise with a person's token."""
    client.check(sha, "c/1", "completed", "success", "accepted", "Summary")
    client.kept_issue("campaign d", "Campaign d", "one")
    client.redeliver_failed()


def test_a_route_that_is_not_listed_is_noticed(tmp_path: Path) -> None:
    with place_in(tmp_path) as place:
        listener = Listener("ada")
        place.forge.listen(listener)
        place.person("ada").get_contents("a.txt")
        with pytest.raises(UnknownObjectException):
            place.person("ada").get_license()
        unlisted = "('get', '/repos/{owner}/{repo}/contents/{path}') is not listed"
        assert listener.wrong == [unlisted, f"GitHub describes no GET /repos/{NAME}/license"]
