"""Text from models and people in what the bot says: it mentions nobody, closes and links nothing, breaks no table, forges no marker."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from texts_support import HEAD, ending, entry, experiments, failed, lesson, order, outcome, release, result, spec

from bot import checks, comments, notices
from bot.campaign.ports import Closing
from bot.campaign.records import Record, hidden, recorded
from bot.dashboard.issue import dashboard_body, dashboard_end
from bot.dashboard.markdown import JOINER
from bot.github.checks import MAX_SUMMARY
from bot.github.client import MAX_BODY
from bot.specs import Survey
from runner.errors import Fault
from runner.result import CheckRow
from runner.verdict import Verdict

PARSER = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
ACTS = re.compile(r"@[A-Za-z0-9_-]|(?<!\w)#[0-9]|\bGH-[0-9]|[a-z][a-z0-9+.-]*://|\bwww\.|\bmailto:|:[a-z_]+:", re.IGNORECASE)
REPORT_HTML = re.compile(r"^</?(details|summary)>|^<details><summary>Identity and environment</summary>$")
INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
URL = "https://forge.example/o/r/blob/x"
ATTACKS = {
    "mention": "@octocat @github/security someone@example.org",
    "closes": "closes #1, fixes owner/repository#2, resolves GH-3, closes https://github.com/o/r/issues/1",
    "html": "<img src=x onerror=alert(1)> <b>bold</b> </details> <script>1</script>",
    "marker": "<!-- kernel-factory: result --> <!-- kernel-factory-record: {} -->",
    "marker in lines": "one\n```\n<!-- kernel-factory: state -->\n",
    "fence": "```\n````\n`````text\nafter",
    "lines that fence": "x\n```\n# heading\n| a | b |\n|---|---|\n@octocat closes #1",
    "table": "a | b | c\n|---|---|\n| x |",
    "link": "[text](https://evil.example) ![picture](//evil.example/x.png) <https://evil.example> www.evil.example",
    "directions": "\u202eright to left\u200b zero\u2066 width\ufeff \x00 \x1b[31m",
    "emphasis": "**bold** _italic_ ~~gone~~ $x$ :tada: &#64;octocat",
    "long": "@octocat closes #1 | ` <!-- " * 9_000,
    "long lines": "@octocat closes #1 | ``` <!--\n" * 9_000,
}


def texts(attack: str) -> dict[str, str]:
    """Every text, with an attack wherever words come from outside."""
    wrong = failed(message=attack)
    small = wrong.reproduction
    assert small is not None
    small = small.model_copy(update={"command": attack, "actual": attack, "expected": attack, "output": attack, "workload": attack})
    check_row = CheckRow(workload="w", kind="public", axes={"n": 1}, verdict=Verdict.INCORRECT, message=attack)
    wrong = wrong.model_copy(update={"reproduction": small, "checks": (check_row,), "environment": {attack[:900]: attack, "a": attack}})
    many = {f"{number} {attack[:300]}": attack for number in range(100)}
    noted = result().model_copy(update={"message": attack, "device": attack, "environment": many, "against": attack})
    evil = release(result=noted, experiments=experiments(attack), lessons=[lesson(attack)] * 12)
    told = outcome(message=attack, entry=entry(hypothesis=attack))
    evidence = comments.Evidence(HEAD, "kernel-specs/x/results/a.json", f"{URL}/a.json", f"{URL}/a.png")
    title = spec().spec.model_copy(update={"title": attack})
    titled = type(spec())(**{**spec().__dict__, "spec": title})
    faults = tuple(Fault("kernel-specs/a/spec.yaml", line, 1, attack) for line in range(1, 300))
    why = ending(merged=False, reason=attack)
    return {
        "winner": comments.winner_comment(evil, evidence),
        "winner without evidence": comments.winner_comment(evil, comments.Evidence(HEAD)),
        "winner's body": comments.winner_body(evil, notices.fork_credit(5, attack)),
        "lineage": comments.result_comment(order(), told, wrong, HEAD, attack),
        "screened": comments.result_comment(order(), told, None, HEAD, attack),
        "check": checks.verdict_check(order(), told, wrong, attack, {"a.cpp"}).summary,
        "specs": checks.spec_check(Survey(HEAD, (titled,), ())).summary,
        "faults": checks.spec_check(Survey(HEAD, (), faults)).summary,
        "closed": notices.closed(why),
        "not chosen": notices.not_chosen(why),
        "not merged": notices.not_merged(attack),
        "reopened": notices.reopened(attack),
        "replaced": notices.lineage_replaced(attack),
        "dashboard": dashboard_body(order(), attack, experiments(attack), [], f"{URL}/plot.png"),
        "dashboard's end": dashboard_end(Closing(order(), None, why, [lesson(attack)] * 12), experiments(attack), [], None),
    }


@pytest.mark.parametrize("name", ATTACKS)
def test_what_others_wrote_does_nothing(name: str):
    for kind, text in texts(ATTACKS[name]).items():
        harmless(kind, text)


def harmless(kind: str, text: str) -> None:
    # Nothing is left to be cut by whoever posts it, and there is room for a record.
    assert len(text) < (MAX_SUMMARY if kind in ("check", "specs", "faults") else MAX_BODY - 1000), (kind, len(text))
    assert not INVISIBLE.search(text), kind
    assert text.count("<!--") == 0, kind
    tokens = PARSER.parse(text)
    widths: list[int] = []
    for token in tokens:
        if token.type == "tr_open":
            widths.append(0)
        elif token.type in ("th_open", "td_open"):
            widths[-1] += 1
        elif token.type == "html_block":
            assert all(REPORT_HTML.match(line) for line in token.content.strip().splitlines()), (kind, token.content)
        elif token.type == "fence":
            assert token.content.endswith("\n"), kind
            assert not ACTS.search(token.content), (kind, ACTS.search(token.content))
        elif token.type == "inline":
            inline(kind, token)
    assert tokens[-1].type != "fence" or text.rstrip().endswith("```"), f"{kind}: a fence is left open"


def inline(kind: str, token: Token) -> None:
    """No HTML, only the bot's own links, and nothing that a forge acts on but the bot's own references."""
    for child in token.children or []:
        assert child.type not in ("html_inline", "s_open", "em_open"), (kind, child.content)
        if child.type == "link_open":
            assert str(child.attrs["href"]).startswith(URL), kind
        if child.type == "image":
            assert str(child.attrs["src"]).startswith(URL), kind
        if child.type in ("text", "code_inline"):
            told = re.sub(r"#(5|12)\b", "", child.content)
            assert not ACTS.search(told), (kind, told)


def test_a_result_with_thousands_of_rows_keeps_whole_rows_and_says_how_many_are_missing():
    rows = result().rows * 300
    text = comments.winner_comment(release(result=result().model_copy(update={"rows": rows})), comments.Evidence(HEAD))
    harmless("many rows", text)
    kept = len(re.findall(rf"^\| (?:{'|'.join(re.escape(row.workload) for row in result().rows)}) ", text, re.MULTILINE))
    assert 100 < kept < 3000
    assert f"{3000 - kept} of 3000 rows are left out here" in text


@pytest.mark.parametrize("text", list(ATTACKS.values())[:-2], ids=list(ATTACKS)[:-2])
def test_a_record_is_read_back_whatever_stands_around_it(text: str):
    evil = order(spec_hash=text)
    record = Record(order=evil, status="running")
    body = f"{text}\n\n{hidden(record)}\n\n<!-- kernel-factory: {evil.campaign} -->"
    assert recorded(body) == record
    assert "-->" not in hidden(record)[4:-3]


def test_a_forged_record_in_a_text_is_not_read():
    forged = hidden(Record(order=order(campaign="forged"), status="ended"))
    body = dashboard_body(order(), "running", experiments(forged), [], None)
    assert recorded(body) is None
    assert JOINER in notices.not_merged(forged)
