"""Text from outside does nothing in a page: read by a real Markdown parser, it is only itself."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from bot.dashboard.markdown import JOINER, block, code, escape, one_line

# GitHub's dialect as far as it matters: tables, strikethrough and raw HTML on.
PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])

# What GitHub acts on in rendered text: mentions, references, addresses, addresses of mail.
ACTS = re.compile(
    r"@[A-Za-z0-9_-]|#[0-9]|(?<![^\W_])GH-[0-9]|[a-z][a-z0-9+.-]*://|(?<![^\W_])www\.|(?<![^\W_])(?:mailto|xmpp):"
    r"|:[0-9_+-]*[A-Za-z_][A-Za-z0-9_+-]*:|:[+-]1:",
    re.IGNORECASE,
)

ATTACKS = [
    "@octocat please look",
    "ask @github/security or someone@example.org",
    "fixes #1, closes owner/repository#12, resolves GH-3",
    "closes https://github.com/owner/repository/issues/1",
    "www.example.org and mailto:a@b.org and xmpp:a@b.org",
    "_www.example.org ~www.example.org _GH-3 _mailto:a@b.org",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "<!-- hidden marker --> &lt;b&gt; &#64;octocat",
    "[link](https://example.org) ![picture](//example.org/x.png) [ref]: /x",
    "a | b\n|---|---|\n| c | d |",
    "# heading\n\n---\n> quote\n1. one\n- two\n+ three\n    code\n```\nfence\n```",
    "heading\n=====\nother\n-----",
    "`code` ``more`` **bold** _italic_ ~~gone~~ $x^2$ \\ \\\\",
    "2) two\n10. ten",
    "\u202ereversed \u200bzero \x00 \x1b[31m",
    ":tada: +1: :+1:",
    "-",
    "=",
    "\\",
    "|",
]
TEXT = st.one_of(
    st.sampled_from(ATTACKS),
    st.text(max_size=60),
    st.text(alphabet="@#ab1`|\\<>[]()!*_~-=+.:/&;$ \n\t", max_size=40),
    st.lists(st.sampled_from([*ATTACKS, " ", "\n", "`", "|", "\\"]), max_size=4).map("".join),
)


def shown(token: Token) -> str:
    """The text that a reader sees of an inline token, which may consist of text alone."""
    children = token.children or []
    assert {child.type for child in children} <= {"text", "text_special"}, [child.type for child in children]
    return "".join(child.content for child in children)


def plain(text: str) -> str:
    return one_line(text, 2000)


@given(TEXT)
def test_escaped_text_is_a_paragraph_of_itself(text):
    tokens = PARSER.parse(escape(text))
    if not plain(text):
        assert tokens == []
        return
    assert [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]
    assert shown(tokens[1]).replace(JOINER, "") == plain(text)
    assert not ACTS.search(shown(tokens[1]))


@given(TEXT, TEXT)
def test_escaped_text_stays_in_its_cell_and_item(first, second):
    table = PARSER.parse(f"| {escape(first)} | {escape(second)} |\n|---|---|\n| {escape(second)} | {escape(first)} |\n")
    cells = [shown(token).replace(JOINER, "") for token in table if token.type == "inline"]
    assert cells == [plain(first), plain(second), plain(second), plain(first)]
    items = PARSER.parse(f"- {escape(first)}, and\n- x {escape(second)}\n")
    assert [token.type for token in items].count("list_item_open") == 2
    assert [token.type for token in items].count("bullet_list_open") == 1


@given(TEXT)
@example("``")
@example("` `")
@example("a`|`b")
def test_a_code_span_holds_exactly_its_text(text):
    tokens = PARSER.parse(f"x {code(text)} y")
    spans = [child for child in tokens[1].children or [] if child.type == "code_inline"]
    assert [span.content.replace(JOINER, "") for span in spans] == ([plain(text)] if plain(text) else [])
    assert all(not ACTS.search(span.content) for span in spans)
    table = PARSER.parse(f"| a | b |\n|---|---|\n| {code(text, cell=True)} | c |\n")
    cells = [token for token in table if token.type == "inline"]
    assert len(cells) == 4
    assert "".join(child.content for child in cells[2].children or []).replace(JOINER, "") == plain(text)


@given(TEXT)
def test_a_block_holds_every_line_and_nothing_after_it(text):
    tokens = PARSER.parse(f"{block(text, 'text')}\n\nafter")
    assert [token.type for token in tokens] == ["fence", "paragraph_open", "inline", "paragraph_close"]
    assert len(tokens[0].content.split("\n")) == len(text.split("\n")) + 1
    assert not ACTS.search(tokens[0].content)


@pytest.mark.parametrize("text", ATTACKS)
def test_known_attacks_do_not_act(text):
    assert not ACTS.search("".join(child.content for token in PARSER.parse(escape(text)) for child in token.children or []))


def test_ordinary_text_stays_readable():
    assert escape("RMSNorm in fp32, 8192 × 4096: 1.5× (1.48–1.52)") == "RMSNorm in fp32, 8192 × 4096: 1.5× (1.48–1.52)"
    assert escape("Intel Xeon @ 2.8 GHz, x86-64-v3") == "Intel Xeon @ 2.8 GHz, x86-64-v3"


def test_long_text_is_cut():
    assert escape("a" * 50, 10) == "a" * 9 + "…"
    assert len(code("a" * 5000)) == 2002
