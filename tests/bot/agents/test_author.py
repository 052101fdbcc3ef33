"""The author works over a real server with the real client, and says clearly why it proposes nothing."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from chat_server import Answer, chat_server, completion, fails, says

from bot.agents.author import MISREADINGS, REPAIRS, AuthorAgent
from bot.agents.chat import LEVELS, RETRIES, ChatModel
from bot.agents.ledger import Ledger, Prices
from bot.campaign.bench import RunnerBench
from bot.evidence.lessons import Lesson
from bot.evidence.remark import Remark
from runner.candidate import candidate_from_files

IDEA = {"hypothesis": "Two accumulators hide the latency of the additions."}
SOURCE = """#include <cmath>
#include <cstdint>

extern "C" void rmsnorm(const float* x, const float* weight, float* y, std::int64_t rows, std::int64_t cols, float eps) {
    for (std::int64_t r = 0; r < rows; ++r) {
        double even = 0, odd = 0;
        for (std::int64_t c = 0; c + 1 < cols; c += 2) {
            even += double(x[r * cols + c]) * x[r * cols + c];
            odd += double(x[r * cols + c + 1]) * x[r * cols + c + 1];
        }
        if (cols % 2 != 0) even += double(x[r * cols + cols - 1]) * x[r * cols + cols - 1];
        const double scale = 1.0 / std::sqrt((even + odd) / double(cols) + eps);
        for (std::int64_t c = 0; c < cols; ++c) y[r * cols + c] = float(x[r * cols + c] * scale * weight[c]);
    }
}
"""
LAUNCH = """sources: [rmsnorm.cpp]
build: {std: c++20}
launches:
  - {function: rmsnorm, args: [x, weight, y, {i64: rows}, {i64: cols}, {f32: eps}]}
"""
KNOBS = LAUNCH.replace("build: {std: c++20}", "build: {std: c++20, defines: {UNROLL: unroll}}\nknobs: {unroll: [1, 2, 4]}")
FREE = Prices()


def draft(source: str = SOURCE, launch: str = LAUNCH, **other: str) -> dict[str, object]:
    return {"hypothesis": "Two sums run side by side.", "files": {"rmsnorm.cpp": source, "launch.yaml": launch, **other}}


@pytest.fixture(scope="module")
def running():
    with chat_server() as server:
        yield server


@pytest.fixture
def server(running):
    running.answers.clear()
    running.asked.clear()
    return running


@pytest.fixture
def ledger(tmp_path):
    book = Ledger(tmp_path / "models.sqlite3")
    yield book
    book.close()


@pytest.fixture
def make_author(server, ledger):
    def make(gate=lambda candidate: None, *, url=None, key="a-key", prices=FREE, seconds=20.0, max_tokens=4096):
        model = ChatModel(url or server.url, "a-model", key, ledger, prices=prices, timeout_seconds=seconds, max_tokens=max_tokens)
        return AuthorAgent("writer", model, gate)

    return make


@pytest.fixture
def brief(make_brief, champion):
    return make_brief(agent="writer", start=champion)


def with_budget(brief, usd: float):
    loaded = brief.spec
    spec = loaded.spec.model_copy(update={"budget": loaded.spec.budget.model_copy(update={"usd": usd})})
    return dataclasses.replace(brief, spec=dataclasses.replace(loaded, spec=spec))


def test_a_kernel_is_written_and_proposed_with_its_hypothesis(server, make_author, brief, champion):
    server.will(says(IDEA), says(draft()))
    author = make_author()
    (proposal,) = author.propose(brief)
    files = {"rmsnorm.cpp": SOURCE.encode(), "launch.yaml": LAUNCH.encode()}
    assert proposal.candidate == candidate_from_files(files, "kernel")
    provenance = proposal.provenance
    assert (provenance.agent, provenance.kind, provenance.parent) == ("writer", "model", champion.tree)
    assert provenance.hypothesis == "Two sums run side by side."
    assert proposal.tuning is None
    assert author.note == ""


def test_what_is_sent_is_the_protocol_and_the_evidence(server, make_author, brief, champion, make_point):
    failed = make_point(5, None, kind="model", tier="full", campaign="c2", message="k.cpp:3:1: error: no", hypothesis="Wider vectors.")
    lessons = (Lesson("threads: 2 is 1.80× (1.70–1.90) as fast as 1.", ("c1/1/tpe/0",), 0.6),)
    server.will(says(IDEA), says(draft()))
    make_author().propose(dataclasses.replace(brief, experiments=(make_point(0, 1.25), failed), lessons=lessons, best=champion))
    strategist, author = server.asked
    for asked in (strategist, author):
        assert asked.headers["authorization"] == "Bearer a-key"
        assert (asked.body["model"], asked.body["max_tokens"], asked.body["seed"]) == ("a-model", 4096, 7)
        assert asked.body["response_format"]["type"] == "json_schema"
        assert [message["role"] for message in asked.body["messages"]] == ["system", "user"]
        assert "id: rmsnorm-cpu" in asked.user
        assert "def rms_norm" in asked.user
        assert champion.files["launch.yaml"].decode() in asked.user
        assert "threads: 2 is 1.80×" in asked.user
        assert "1.250x the baseline" in asked.user
        assert "build_error" not in asked.user
        assert "launch_error: k.cpp:3:1: error: no" in asked.user
        assert "Wider vectors." in asked.user
    assert "hypothesis" in strategist.body["response_format"]["json_schema"]["schema"]["properties"]
    assert "files" in author.body["response_format"]["json_schema"]["schema"]["properties"]
    assert IDEA["hypothesis"] in author.user


def test_what_a_reviewer_wants_changed_is_sent_with_the_kernel_that_it_is_about(server, make_author, brief, champion, seed_kernel):
    said = "Too clever: no unrolling by hand, please. @everyone"
    remark = Remark(campaign="c2", spec="rmsnorm-cpu", review=7, by="ada", text=said, kernel_tree=seed_kernel.tree)
    server.will(says(IDEA), says(draft()))
    asked_of = dataclasses.replace(brief, remarks=(remark,), refused={seed_kernel.tree: seed_kernel})
    assert make_author().propose(asked_of)
    for asked in server.asked:
        assert f"ada: {said}" in asked.user
        assert said not in asked.system
        assert seed_kernel.files["launch.yaml"].decode() in asked.user
    server.asked.clear()
    # Said of the present kernel, it is not sent twice.
    server.will(says(IDEA), says(draft()))
    make_author().propose(dataclasses.replace(asked_of, best=seed_kernel))
    assert server.asked[0].user.count(seed_kernel.files["launch.yaml"].decode()) == 1
    assert "review of the present kernel" in server.asked[0].user


def test_a_kernel_that_a_reviewer_refused_is_not_proposed_again(server, make_author, brief):
    refused = candidate_from_files({"rmsnorm.cpp": SOURCE.encode(), "launch.yaml": LAUNCH.encode()}, "kernel")
    remark = Remark(campaign="c1", spec="rmsnorm-cpu", review=7, by="ada", text="Unreadable.", kernel_tree=refused.tree)
    server.will(says(IDEA), says(draft()), says(draft(SOURCE.replace("odd", "other"))))
    (proposal,) = make_author().propose(dataclasses.replace(brief, remarks=(remark,)))
    assert proposal.candidate.tree != refused.tree
    assert "a reviewer refused exactly this kernel: Unreadable." in server.asked[2].user


def test_without_a_key_nothing_of_the_environment_is_sent(server, make_author, brief, monkeypatch):
    for name in ("OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "not-for-this-server")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    server.will(says(IDEA), says(draft()))
    assert len(make_author(key=None).propose(brief)) == 1
    assert "not-for-this-server" not in str([asked.headers for asked in server.asked])


def test_knobs_without_a_choice_are_left_to_a_search(server, make_author, brief, seed_kernel):
    server.will(says(IDEA), says(draft(launch=KNOBS)), says(IDEA), says(draft(launch=KNOBS + "table: [{when: 'true', unroll: 2}]\n")))
    (open_choice,) = make_author().propose(brief)
    assert (open_choice.tuning.strategy, open_choice.tuning.trials, open_choice.tuning.seed) == ("tpe", 3, 7)
    (chosen,) = make_author().propose(brief)
    assert chosen.tuning is None


@pytest.mark.parametrize(
    "wrap",
    ["```json\n{}\n```", "```\n{}\n```", "  \n{}\n\n", "<think>Let me see: {{1}}</think>\n{}", "<think>\n</think>```json\n{}\n```"],
)
def test_a_fence_and_thoughts_around_the_json_are_forgiven(wrap, server, make_author, brief):
    server.will(says(wrap.format(json.dumps(IDEA))), says(wrap.format(json.dumps(draft()))))
    assert len(make_author().propose(brief)) == 1


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ("Here you are: {}", "not JSON: line 1, column 1"),
        ('{"hypothesis": "a", "hypothesis": "b"}', "stands there twice"),
        ('{"hypothesis": NaN}', "NaN is not JSON"),
        ('{"hypothesis": "a", "more": 1}', "more: Extra inputs are not permitted"),
        ('{"hypothesis": 3}', "hypothesis: Input should be a valid string"),
        ('{"hypothesis": ""}', "hypothesis: String should have at least 1 character"),
        ("[" * 100_000, "not JSON"),
        ('"text"', "the answer: "),
        ('{"hypothesis": "\\ud800"}', "hypothesis: "),
    ],
)
def test_an_answer_that_is_not_the_json_asked_for_is_asked_again_with_the_fault(answer, fault, server, make_author, brief):
    server.will(says(answer), says(IDEA), says(draft()))
    assert len(make_author().propose(brief)) == 1
    again = server.asked[1]
    assert [message["role"] for message in again.body["messages"]] == ["system", "user", "assistant", "user"]
    assert fault in again.user


def test_answers_that_stay_unreadable_end_in_a_note(server, make_author, brief):
    server.will(*[says("no")] * (MISREADINGS + 1))
    author = make_author()
    assert author.propose(brief) == ()
    assert author.note == "the author proposed nothing: not JSON: line 1, column 1: Expecting value"
    assert server.answers == []


def test_a_refused_kernel_is_mended_before_anything_is_measured(server, make_author, brief):
    seen = []

    def gate(candidate):
        seen.append(candidate)
        return "build_error: rmsnorm.cpp:6: error: 'even' was not declared" if b"even" not in candidate.files["rmsnorm.cpp"] else None

    broken = draft(SOURCE.replace("double even = 0, odd = 0;", "double odd = 0;").replace("even", "evn"))
    server.will(says(IDEA), says(broken), says(draft()))
    (proposal,) = make_author(gate).propose(brief)
    assert proposal.candidate.files["rmsnorm.cpp"] == SOURCE.encode()
    assert len(seen) == 2
    repair = server.asked[2]
    assert "repairer" in repair.system
    assert "'even' was not declared" in repair.user
    assert "evn" in repair.user


def test_repairs_end(server, make_author, brief):
    drafts = [draft(SOURCE + f"// {number}\nint f{number}();\n") for number in range(REPAIRS + 1)]
    server.will(says(IDEA), *map(says, drafts))
    author = make_author(lambda candidate: "policy_violation: rmsnorm.cpp:1:1: no")
    assert author.propose(brief) == ()
    expected = f"the author proposed nothing: after {REPAIRS} repairs its kernel is still refused: policy_violation: rmsnorm.cpp:1:1: no"
    assert author.note == expected
    assert server.answers == []


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"../evil.cpp": "int x;"}, "this name is not allowed"),
        ({"/etc/passwd": "x"}, "this name is not allowed"),
        ({"notes.md": "x"}, "this name is not allowed"),
        ({"big.hpp": "x" * 300_000}, "bytes; at most"),
        ({"odd.hpp": "int x; // \u202e"}, "U+202E is not allowed"),
        ({"rmsnorm.cpp": "int x;\x00"}, "U+0000 is not allowed"),
    ],
)
def test_files_of_a_model_stand_under_the_same_rules_as_any_candidates(files, fault, server, make_author, brief):
    server.will(says(IDEA), says(draft(**files)), says(draft()))
    (proposal,) = make_author().propose(brief)
    assert set(proposal.candidate.files) == {"rmsnorm.cpp", "launch.yaml"}
    assert fault in server.asked[2].user


def test_a_kernel_that_was_tried_is_not_proposed_again(server, make_author, brief, make_point):
    tried = make_author()
    server.will(says(IDEA), says(draft()))
    (proposal,) = tried.propose(brief)
    known = make_point(0, 0.912, kernel_tree=proposal.candidate.tree, tier="full", campaign="c2")
    server.will(says(IDEA), says(draft()), says(draft(SOURCE.replace("double even", "float even"))))
    (other,) = make_author().propose(dataclasses.replace(brief, experiments=[known]))
    assert other.candidate.tree != proposal.candidate.tree
    assert "was tried before as c2/1/tpe/0 (slower: 0.912x the baseline)" in server.asked[-1].user


def test_overload_is_waited_out(server, make_author, brief):
    server.will(
        fails(429, "slow down", retry_after="0"), fails(503, "loading", retry_after="0"), says(IDEA), fails(500, "oops", retry_after="0")
    )
    server.will(says(draft()))
    assert len(make_author().propose(brief)) == 1
    assert len(server.asked) == 5


@pytest.mark.parametrize(
    ("answer", "times", "note"),
    [
        (fails(500, "out of memory", retry_after="0"), RETRIES + 1, "answered 500: .*out of memory"),
        (fails(429, "quota", retry_after="0"), RETRIES + 1, "answered 429: .*quota"),
        (fails(401, "bad key"), 1, "answered 401: .*bad key"),
        (fails(404, "no such model"), 1, "answered 404: .*no such model"),
        (fails(400, "context length exceeded"), LEVELS, "refused the request: .*context length exceeded"),
        (Answer(body="<html>a proxy</html>"), 1, "not a chat completion"),
        (Answer(body='{"choices"'), 1, "not a chat completion"),
        (completion({"choices": []}), 1, "not a chat completion: choices"),
        (completion({"choices": [{"message": None}]}), 1, "not a chat completion"),
        (completion({"choices": 3, "usage": "none"}), 1, "not a chat completion"),
        (says("", completion_tokens=0), 1, "answer is empty"),
        (says("{", finish_reason="length"), 1, "cut at the limit of tokens"),
    ],
)
def test_a_failing_server_ends_in_a_note_not_in_a_crash(answer, times, note, server, make_author, brief):
    server.will(*[answer] * times)
    author = make_author()
    assert author.propose(brief) == ()
    assert re.match(rf"the author proposed nothing: .*({note})", author.note), author.note
    assert len(author.note) < 600
    assert len(server.asked) == times


def test_no_server_at_all_ends_in_a_note(make_author, brief, monkeypatch):
    monkeypatch.setattr("bot.agents.chat._wait", lambda error, failures: 0.0)
    author = make_author(url="http://127.0.0.1:9/v1")
    assert author.propose(brief) == ()
    assert author.note.startswith("the author proposed nothing: the model server http://127.0.0.1:9/v1 can't be reached: ")


def test_a_server_that_is_too_slow_is_given_up(server, make_author, brief):
    slow = says(IDEA)
    slow.delay = 1.0
    server.will(slow)
    author = make_author(seconds=0.2)
    assert author.propose(brief) == ()
    assert author.note.endswith("gave no answer in time")


def test_a_server_that_knows_less_of_the_protocol_is_asked_for_less(server, make_author, brief):
    server.will(fails(400, "response_format is not supported"), fails(400, "use max_completion_tokens"), says(IDEA), says(draft()))
    assert len(make_author().propose(brief)) == 1
    asked = [set(one.body) - {"model", "messages", "stream"} for one in server.asked]
    assert asked == [
        {"response_format", "max_tokens", "seed"},
        {"max_tokens", "seed"},
        {"max_completion_tokens"},
        {"max_completion_tokens"},
    ]


def test_what_calls_cost_is_counted_and_kept(server, make_author, brief, ledger, tmp_path):
    prices = Prices(input=2.0, output=10.0)
    server.will(says(IDEA, prompt_tokens=3000, completion_tokens=50), says(draft(), prompt_tokens=4000, completion_tokens=900))
    assert len(make_author(prices=prices).propose(with_budget(brief, 1.0))) == 1
    expected = (7000 * 2.0 + 950 * 10.0) / 1e6
    assert ledger.spent("c2") == pytest.approx(expected)
    assert ledger.tokens("c2") == (7000, 950)
    assert ledger.spent("another") == 0
    again = Ledger(tmp_path / "models.sqlite3")
    assert again.spent("c2") == pytest.approx(expected)
    again.close()


def test_a_call_that_could_cost_more_than_is_left_is_not_made(server, make_author, brief, ledger):
    author = make_author(prices=Prices(input=2.0, output=10.0))
    assert author.propose(with_budget(brief, 0.0)) == ()
    assert re.search(r"a call may cost 0\.\d+ dollars, and 0\.0000 of the campaign's 0 are left", author.note)
    assert server.asked == []
    # One call fits, and what it took leaves too little for the next: it is never begun.
    server.will(says(IDEA, prompt_tokens=20_000, completion_tokens=3000))
    assert author.propose(with_budget(brief, 0.10)) == ()
    assert len(server.asked) == 1
    assert ledger.spent("c2") == pytest.approx(0.07)


def test_a_model_without_a_price_needs_no_budget(server, make_author, brief, ledger):
    server.will(says(IDEA), says(draft()))
    assert len(make_author().propose(with_budget(brief, 0.0))) == 1
    assert ledger.spent("c2") == 0
    assert ledger.tokens("c2") == (2000, 200)


def test_an_unanswered_call_counts_with_what_was_reserved(server, make_author, brief, ledger):
    slow = says(IDEA)
    slow.delay = 1.0
    server.will(slow)
    make_author(prices=Prices(output=10.0), seconds=0.2, max_tokens=1000).propose(with_budget(brief, 1.0))
    assert ledger.spent("c2") == pytest.approx(0.01)


def test_an_answer_without_usage_counts_with_what_was_reserved(server, make_author, brief, ledger):
    server.will(completion({"choices": [{"index": 0, "message": {"role": "assistant", "content": "no"}, "finish_reason": "stop"}]}))
    make_author(prices=Prices(output=10.0), max_tokens=1000).propose(with_budget(brief, 0.015))
    assert ledger.spent("c2") == pytest.approx(0.01)


def test_without_evaluations_left_nothing_is_asked(server, make_author, brief):
    author = make_author()
    assert author.propose(dataclasses.replace(brief, trials=0)) == ()
    assert author.note == "no evaluations are left for this round"
    assert server.asked == []


def test_policy_and_build_of_this_machine_are_a_gate(server, make_author, brief, monkeypatch, tmp_path):
    """The real gate: a system call is against the policy, a missing name does not compile, and the third kernel passes."""
    monkeypatch.setenv("KERNEL_FACTORY_STATE", str(tmp_path / "state"))
    bench = RunnerBench()

    def gate(candidate):
        refusal = bench.gate(brief.spec, candidate)
        return f"{refusal.verdict}: {refusal.message}" if refusal is not None else None

    forbidden = SOURCE.replace("#include <cmath>", "#include <cmath>\n#include <unistd.h>")
    broken = SOURCE.replace("double even = 0, odd = 0;", "double odd = 0;")
    server.will(says(IDEA), says(draft(forbidden)), says(draft(broken)), says(draft()))
    (proposal,) = make_author(gate).propose(brief)
    assert proposal.candidate.files["rmsnorm.cpp"] == SOURCE.encode()
    _, _, first, second = server.asked
    assert "policy_violation: " in first.user
    assert "unistd.h" in first.user
    assert "build_error: " in second.user
    assert re.search(r"rmsnorm\.cpp:\d+:\d+: error: .even. was not declared", second.user)
