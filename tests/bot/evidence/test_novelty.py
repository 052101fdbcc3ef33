"""A candidate that differs from a tried one in comments and spacing only is not new; one that can behave otherwise is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.evidence.novelty import is_known, normalize, normalized_hash
from runner.candidate import candidate_from_files
from runner.verdict import Verdict

MANIFEST = """sources: [k.cpp]
launches:
  - {function: k, args: [x, y, {i64: rows}]}
"""
SOURCE = """#include <cstdint>
#define TWICE(x) ((x) + (x))
// Doubles.
extern "C" void k(const float* x, float* y, std::int64_t rows) {
    for (std::int64_t r = 0; r < rows; ++r) {
        y[r] = TWICE(x[r]);  /* the sum */
    }
}
"""


def hashed(source: str = SOURCE, manifest: str = MANIFEST) -> str:
    return normalized_hash(candidate_from_files({"k.cpp": source.encode(), "launch.yaml": manifest.encode()}, "kernel"))


@pytest.mark.parametrize(
    "changed",
    [
        SOURCE.replace("// Doubles.\n", ""),
        SOURCE.replace("// Doubles.", "// Something else, \\\n   that goes on"),
        SOURCE.replace("/* the sum */", "/* on\n two lines */"),
        SOURCE.replace("    ", "\t"),
        SOURCE.replace("\n", "\r\n"),
        SOURCE.replace(" {\n", "\n{\n"),
        SOURCE.replace("r < rows", "r<rows").replace("y[r] = ", "y [ r ]=\n   "),
        SOURCE.replace("#include", "  #include"),
        SOURCE + "\n\n// end",
    ],
)
def test_comments_and_spacing_make_nothing_new(changed):
    assert changed != SOURCE
    assert hashed(changed) == hashed()


@pytest.mark.parametrize(
    "changed",
    [
        SOURCE.replace("++r", "r += 2"),
        SOURCE.replace("TWICE(x)", "TWICE (x)"),  # another macro: it takes no argument
        SOURCE.replace("#define TWICE(x) ((x) + (x))", '#define TWICE(x) "// no comment"'),
        SOURCE.replace("(x) + (x)", "(x) + +(x)"),
        SOURCE.replace("(x) + (x)", "(x) ++(x)"),
        SOURCE.replace("\n#define", " #define"),
        SOURCE.replace("// Doubles.\n", "// Doubles. \\\n"),  # the splice makes the function a comment
        SOURCE.replace("std::int64_t r = 0", "std::int64_tr = 0"),
    ],
)
def test_what_can_behave_otherwise_is_new(changed):
    assert changed != SOURCE
    assert hashed(changed) != hashed()


def test_text_in_literals_is_kept():
    assert normalize('a("// x  y")') != normalize('a("// x y")')
    assert normalize('R"(a // b)" // c') == 'R"(a // b)"'
    assert normalize('u8R"x( " )x" /* c */ + 1') == 'u8R"x( " )x"+1'
    assert normalize(r"'\'' // c") == r"'\''"
    assert normalize("1'000'000 /* c */ + 2") == "1'000'000+2"
    assert normalize("a/**/b") == "a b"


def test_the_manifest_counts_by_what_it_says():
    assert hashed(manifest="# why\n" + MANIFEST) == hashed()
    assert hashed(manifest=MANIFEST.replace("rows}", "rows + 1}")) != hashed()
    knobs = MANIFEST + "knobs: {u: [1, 2]}\ntable: [{when: 'true', u: 1}]\n"
    assert hashed(manifest=knobs) != hashed(manifest=knobs.replace("u: 1}", "u: 2}"))


PIECES = st.sampled_from(["a", "b1", "0x1F", "1'0", "+", "++", "(", ")", '"s // t"', "'c'", ";", "::", "/", "*"])
GAPS = st.sampled_from([" ", "  ", "\t", " \n ", " /* c */ ", " // c\n"])


@given(st.lists(PIECES, min_size=1, max_size=12), st.data())
def test_any_gap_is_the_same_gap(pieces, data):
    once = "".join(piece + data.draw(GAPS) for piece in pieces)
    again = "".join(piece + data.draw(GAPS) for piece in pieces)
    assert normalize(once) == normalize(again)


@given(st.text(alphabet="ab1 \n\t\"'\\/*#()R+", max_size=60))
def test_normalizing_never_fails_and_is_stable(source):
    normalize(normalize(source))
    assert normalize(source) == normalize(source)


def test_a_known_tree_or_normalized_hash_is_found(make_experiment):
    first, second = make_experiment(0, 1.0, normalized="n0"), make_experiment(1, 1.0, tier="full", normalized="n1")
    tried = [first, second]
    assert is_known(first.kernel_tree, first.spec_hash, tried) == first
    assert is_known(first.kernel_tree, first.spec_hash, tried, tier="full") is None
    assert is_known("0" * 39 + "f", first.spec_hash, tried) is None
    assert is_known("0" * 39 + "f", first.spec_hash, tried, normalized="n1") == second
    assert is_known(first.kernel_tree, "another", tried) is None


def test_a_lost_evaluation_and_an_empty_hash_make_nothing_known(make_experiment):
    lost = make_experiment(0, None, verdict=Verdict.EVALUATION_LOST)
    assert is_known(lost.kernel_tree, lost.spec_hash, [lost]) is None
    untold = make_experiment(1, 1.0)
    assert is_known("f" * 40, untold.spec_hash, [untold], normalized="") is None
