"""The forge's pages: what they show, that nothing in them runs, and that a review sent from one counts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from stand import FULL_NAME, Stand, stand

from bot.forge.bare import Changed
from bot.forge.model import Check, Issue
from bot.forge.rendering import Place, by_interest, folded, lines, markdown

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


@pytest.fixture
def here(place: Stand) -> Place:
    """A text of the repository, which has pull request 1 and issue 2."""
    return Place(place.repository, place.forge.url)


def test_markdown_keeps_what_is_harmless(here: Place) -> None:
    shown = markdown("<details><summary>more</summary>\n\n`a`\n\n</details>", here)
    assert shown.startswith("<details><summary>more</summary>")
    assert "<code>a</code>" in shown


def test_references_lead_to_pull_requests_and_issues_of_the_repository(here: Place) -> None:
    # As on GitHub, it is the rendered text that counts: an entity is a sign like any other.
    shown = markdown("#1, #2 (not #99, a#1, &#35;1, `#1`, #1a or #\u20601) **#2** [#1](https://example.org)", here)
    assert shown.count(f'href="/{FULL_NAME}/pull/1"') == 2
    assert shown.count(f'href="/{FULL_NAME}/issues/2"') == 2
    assert 'title="Dashboard"' in shown
    assert shown.count("<a ") == 5


def test_who_is_mentioned_stands_out_and_who_is_kept_from_it_does_not(here: Place) -> None:
    shown = markdown("@ada, @\u2060everyone, a@example.org and `@bob`", here)
    assert re.findall(r'<b class="mention">([^<]*)</b>', shown) == ["@ada"]


def test_pictures_and_links_are_found_from_where_a_text_stands(here: Place, web: httpx2.Client) -> None:
    root = markdown(f"![p](plot.svg) [k](kernel/a.cpp) ![p]({here.url}/{FULL_NAME}/raw/main/plot.svg) [x](https://example.org/)", here)
    assert root.count(f'src="/{FULL_NAME}/raw/main/plot.svg"') == 2
    assert f'href="/{FULL_NAME}/blob/main/kernel/a.cpp"' in root
    assert 'href="https://example.org/"' in root
    file = here.at("a" * 40, "specs/x/RESULTS.md")
    assert f'src="/{FULL_NAME}/raw/{"a" * 40}/specs/x/results/p.png"' in markdown("![p](<results/p.png>)", file)
    assert f'href="/{FULL_NAME}/blob/{"a" * 40}/etc/passwd"' in markdown("[up](../../../../etc/passwd)", file)
    for address in re.findall(r'(?:src|href)="(/[^"]*)"', root):
        assert web.get(address).status_code == 200


def test_what_a_check_remarks_stands_at_its_line_and_only_what_the_diff_lacks_in_the_box(place: Stand, web: httpx2.Client) -> None:
    head = place.repository.pull(1).head
    notes = [
        {"path": "kernel/a.cpp", "start_line": line, "end_line": line, "annotation_level": "failure", "message": message}
        for line, message in ((1, "Not two: <b>three</b>"), (9, "Far away"))
    ]
    check = Check(1, head, "verdict", "x", 1, "completed", "failure", title="2 faults", annotations=notes)
    place.repository.checks.append(check)
    for page in (f"/{FULL_NAME}/commit/{head}", f"/{FULL_NAME}/pull/1"):
        box, diff = web.get(page).text.split('id="files"')
        assert "Not two" not in box
        assert "Far away" in box
        after = diff.split("int two&lt;3&gt;;")[1]
        assert "Not two: &lt;b&gt;three&lt;/b&gt;" in after
        assert "Far away" not in after


def test_a_pull_request_that_waits_for_a_review_is_announced_until_it_is_closed(place: Stand, web: httpx2.Client) -> None:
    forge, pull = place.forge.forge, place.repository.pull(1)
    assert "waits for your review" not in web.get("/").text
    pull.requested.append(forge.accounts[place.person])
    assert all("waits for your review" in web.get(page).text for page in ("/", f"/{FULL_NAME}"))
    pull.state = "closed"
    assert all("waits for your review" not in web.get(page).text for page in ("/", f"/{FULL_NAME}"))


def test_open_ones_stand_before_closed_ones(place: Stand, web: httpx2.Client) -> None:
    first, repository = place.repository.issue(2), place.repository
    for number, state in ((3, "open"), (4, "closed")):
        repository.issues[number] = Issue(number, number, first.author, f"Issue {number}", "", state=state)
    assert re.findall(r"#(\d) by", web.get(f"/{FULL_NAME}").text) == ["1", "3", "2", "4"]


def test_kernels_stand_first_and_what_programs_wrote_is_folded_away() -> None:
    names = ["specs/x/RESULTS.md", "specs/x/kernel/launch.yaml", "specs/x/results/r.json", "specs/x/kernel/a.cu", "specs/x/lessons.md"]
    files = [Changed(name, name, "added", 1, 0, "", "@@ -0,0 +1 @@\n+a") for name in names]
    assert [file.path for file in by_interest(files)] == [names[3], names[1], names[0], names[4], names[2]]
    assert [file.path for file in files if folded(file)] == [names[2]]


def test_added_markdown_is_shown_as_it_reads_with_its_pictures(place: Stand, web: httpx2.Client) -> None:
    head = place.commit("x", {"RESULTS.md": "# Fast\n\n![how](plot.svg)\n", "results/plot.png": "no picture"})
    text = web.get(f"/{FULL_NAME}/pull/1").text
    assert "<h1>Fast</h1>" in text
    assert f'src="/{FULL_NAME}/raw/{head}/plot.svg"' in text
    assert f'src="/{FULL_NAME}/raw/{head}/results/plot.png"' in text


def test_the_lines_of_a_diff_are_numbered() -> None:
    found = lines("@@ -3,2 +3,3 @@ f()\n a\n-b\n+c\n+d")
    assert [(one.kind, one.before, one.after, one.text) for one in found[1:]] == [
        ("same", 3, 3, "a"),
        ("removed", 4, None, "b"),
        ("added", None, 4, "c"),
        ("added", None, 5, "d"),
    ]
