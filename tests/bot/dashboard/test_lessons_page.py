"""`lessons.md` says each lesson once, with its evidence, and does nothing else whatever a lesson quotes."""

from __future__ import annotations

from markdown_it import MarkdownIt

from bot.dashboard.lessons import lessons_markdown
from bot.evidence.lessons import Lesson


def test_lessons_are_numbered_and_name_their_experiments(spec):
    ids = tuple(f"c1/1/tpe/{index}" for index in range(9))
    page = lessons_markdown(spec, [Lesson("unroll: 4 is 1.20× (1.10–1.30) as fast as 1.", ids, 0.2), Lesson("Second.", ids[:1], 0.1)])
    assert page.startswith("# Lessons: RMSNorm in fp32 on a CPU\n")
    assert "1. unroll: 4 is 1.20× (1.10–1.30) as fast as 1.  \n   Evidence: `c1/1/tpe/0`, " in page
    assert "`c1/1/tpe/5` and 3 more." in page
    assert "2. Second.  \n   Evidence: `c1/1/tpe/0`." in page


def test_no_lessons_are_told(spec):
    assert "No lesson stands on enough experiments yet." in lessons_markdown(spec, [])


def test_what_a_lesson_quotes_does_nothing(spec):
    evil = Lesson("fixes #1 @octocat <b>x</b>\n# heading\n[a](https://example.org)", ("`c1`\n- x",), 1.0)
    page = lessons_markdown(spec, [evil, evil])
    assert "#1" not in page
    assert "@o" not in page
    assert "://" not in page
    tokens = MarkdownIt("commonmark").parse(page)
    assert sum(token.type == "list_item_open" for token in tokens) == 2
    assert sum(token.type == "heading_open" for token in tokens) == 1
    kinds = {child.type for token in tokens for child in token.children or []}
    assert kinds <= {"text", "text_special", "code_inline", "hardbreak", "softbreak"}
