"""A person in a real browser, without scripts: the winner's page, a request for changes, another round, the approval, the merge."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from factory_stand import KERNEL, NAME, Stand

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install -e '.[dev]'")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NARROW, WIDE = 390, 1280
SAID = "Too many knobs. Closes #1, @everyone: <b>fewer</b> please."

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture
def page() -> Iterator[playwright.Page]:
    """A page of a browser that runs no script, in a wide window."""
    with playwright.sync_playwright() as started:
        # Chromium has no sandbox of its own for root; it opens nothing but the forge on this machine.
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(java_script_enabled=False, viewport={"width": WIDE, "height": 900})
        context.set_default_timeout(10_000)
        yield context.new_page()
        browser.close()


def sideways(page: playwright.Page, address: str) -> bool:
    """Whether a page is wider than a telephone's window, with everything on it unfolded."""
    page.set_viewport_size({"width": NARROW, "height": 800})
    page.goto(address)
    wide = page.evaluate("() => { document.querySelectorAll('details').forEach(one => one.open = true); return document.body.scrollWidth }")
    page.set_viewport_size({"width": WIDE, "height": 900})
    return int(wide) > NARROW


def test_a_person_asks_for_changes_and_approves_what_comes_in_a_browser(stand: Stand, page: playwright.Page) -> None:
    commit = stand.commit_spec(approval="required", rounds=1, candidates=10)
    stand.start(runs=True, plots=True)
    first = stand.waiting()
    tree = stand.tree(KERNEL, first.head)

    # From the front page to the winner's, and everything that a reviewer needs is there.
    page.goto(stand.forge.url)
    page.get_by_role("link", name="Review").click()
    assert f"/{NAME}/pull/{first.number}" in page.url
    assert "the winner of" in page.locator("main > h1").inner_text()
    table = page.locator("article table").first
    assert [cell.inner_text() for cell in table.locator("th").all()][:5] == ["workload", "error", "median", "baseline", "speed-up"]
    assert {row.locator("td").first.inner_text() for row in table.locator("tbody tr").all()} == {"small", "large"}
    assert page.locator(".checks .mark").get_attribute("title") == "success"
    assert "accepted" in page.locator(".checks").inner_text()
    files = page.locator("#files details.file")
    assert files.first.locator("summary a").inner_text() == f"{KERNEL}/launch.yaml"
    assert any("knobs:" in line for line in files.first.locator("tr.added").all_inner_texts())
    assert all("/results/" in file.inner_text() for file in page.locator("#files details.file:not([open])").all())

    # A request for changes needs a word, and brings another kernel.
    page.get_by_role("button", name="Request changes").click()
    assert "body" in page.locator("main").inner_text().lower()
    page.go_back()
    page.get_by_label("What you think").fill(SAID)
    page.get_by_role("button", name="Request changes").click()
    assert "requested changes" in page.locator(".review.changes_requested").inner_text()
    assert page.locator(".review b", has_text="fewer").count() == 1
    second = stand.waiting(than=first.head)
    assert stand.tree(KERNEL, second.head) != tree

    # What was said stands in the lessons of what is reviewed next; it mentions nobody and links nowhere.
    page.goto(f"{stand.forge.url}/{NAME}/pull/{second.number}")
    lesson = page.locator("#files .document li", has_text="asked for changes")
    assert "Too many knobs" in lesson.inner_text()
    assert lesson.locator("a, .mention, b").count() == 0
    page.get_by_role("button", name="Approve").click()
    assert "approved" in page.locator(".review.approved").inner_text()
    (told,) = stand.ended()
    page.reload()
    assert page.locator(".badge").inner_text() == "merged"
    assert stand.tree(KERNEL) == told["summary"]["winner"]["kernel_tree"] == stand.tree(KERNEL, second.head)
    assert told["summary"]["rounds"] == 2

    # The losers are closed, and the dashboard shows how it went.
    page.goto(f"{stand.forge.url}/{NAME}")
    assert sorted(page.locator(".badge").all_inner_texts()) == ["closed", "closed", "merged"]
    (issue,) = stand.issues()
    page.get_by_role("link", name=issue.title).click()
    plot = page.locator(".prose img")
    assert plot.evaluate("picture => picture.naturalWidth") > 1000
    text = page.locator(".prose").inner_text()
    assert all(word in text for word in ("approved by ada", "% of the roofline", "Too many knobs", "device minutes", "tpe", "local"))
    assert page.locator(".prose .mention").count() == 0
    page.locator(".prose").get_by_role("link", name=f"#{second.number}").first.click()
    assert page.locator(".badge").inner_text() == "merged"
    page.go_back()
    page.locator(".prose a[href*='/actions/runs/']").first.click()
    run = page.url

    pages = ("", "/issues/1", *(f"/pull/{one.number}" for one in stand.pulls()), f"/commit/{commit}", f"/blob/main/{KERNEL}/twice.cpp")
    addresses = [stand.forge.url, run, *(f"{stand.forge.url}/{NAME}{path}" for path in pages)]
    assert not [address for address in addresses if sideways(page, address)]
    # It was kept current while the rounds were played, not only after them.
    told_before = "\n".join(str(write.body) for write in stand.writes("PATCH", f"/issues/{issue.number}"))
    for what in ("round 1: screening", "round 1: judging in full", "round 1: confirming", "round 2: screening"):
        assert what in told_before
