"""The forge's pages: what they show, that nothing in them runs, and that a review sent from one counts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from stand import FULL_NAME, Stand, stand

from bot.forge.pages import lines, markdown

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\n\n[a](javascript:alert(3))<!-- a marker -->"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Stand]:
    with stand(tmp_path) as made:
        made.commit("main", {"kernel/a.cpp": "int one;\n", "plot.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>"})
        made.commit("x", {"kernel/a.cpp": "int two<3>;\n"}, parent="main")
        forge = made.forge.forge
        pull = forge.open_pull(made.repository, forge.bot, "A <b>kernel</b>", f"| a | b |\n|--|--:|\n| 1 | 2 |\n\n{EVIL}", "x", "main")
        forge.comment(made.repository, forge.bot, pull, EVIL)
        forge.open_issue(made.repository, forge.bot, "Dashboard", "**round** 1", [])
        yield made


@pytest.fixture
def web(place: Stand) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=place.forge.url) as client:
        yield client


def test_every_page_is_there_and_nothing_in_it_runs(place: Stand, web: httpx2.Client) -> None:
    head = place.repository.pull(1).head
    pages = ["", "/pull/1", "/issues/2", f"/commit/{head}", "/blob/main/kernel/a.cpp"]
    for path in ["/", *(f"/{FULL_NAME}{page}" for page in pages)]:
        answer = web.get(path)
        assert answer.status_code == 200, path
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert not any(word in answer.text for word in ("<script", "onerror", 'href="javascript', "a marker"))


def test_a_pull_request_shows_its_table_and_its_diff(web: httpx2.Client) -> None:
    text = web.get(f"/{FULL_NAME}/pull/1").text
    assert '<td align="right">2</td>' in text
    assert "int two&lt;3&gt;;" in text
    assert "A &lt;b&gt;kernel&lt;/b&gt;" in text


def test_a_review_from_the_page_counts_for_the_head_that_was_shown(place: Stand, web: httpx2.Client) -> None:
    pull = place.repository.pull(1)
    form = {"event": "APPROVE", "body": "", "head": pull.head}
    address = f"/{FULL_NAME}/pull/1/review"
    assert web.post(address, data={**form, "head": "0" * 40}).status_code == 409
    assert web.post(address, data=form, headers={"Origin": "http://elsewhere"}).status_code == 403
    assert web.post(address, data={**form, "event": "REQUEST_CHANGES"}).status_code == 422
    assert web.post(address, data=form).status_code == 303
    assert [(one.author.login, one.state, one.commit) for one in pull.reviews] == [(place.person, "APPROVED", pull.head)]
    assert "✓ approved" in web.get(f"/{FULL_NAME}/pull/1").text


def test_files_are_served_as_pictures_or_as_text(web: httpx2.Client) -> None:
    assert web.get(f"/{FULL_NAME}/raw/main/plot.svg").headers["Content-Type"] == "image/svg+xml"
    assert web.get(f"/{FULL_NAME}/raw/main/kernel/a.cpp").headers["Content-Type"].startswith("text/plain")
    assert web.get(f"/{FULL_NAME}/raw/main/none").status_code == 404


def test_markdown_keeps_what_is_harmless() -> None:
    shown = markdown("<details><summary>more</summary>\n\n`a`\n\n</details>")
    assert shown.startswith("<details><summary>more</summary>")
    assert "<code>a</code>" in shown


def test_the_lines_of_a_diff_are_numbered() -> None:
    found = lines("@@ -3,2 +3,3 @@ f()\n a\n-b\n+c\n+d")
    assert [(one.kind, one.before, one.after, one.text) for one in found[1:]] == [
        ("same", 3, 3, "a"),
        ("removed", 4, None, "b"),
        ("added", None, 4, "c"),
        ("added", None, 5, "d"),
    ]
