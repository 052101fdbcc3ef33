"""The lexer splits sources as the compiler's own preprocessor does, or refuses them."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.targets.cpu.cpp_lexer import lex

# Pieces at whose seams a wrong reader of C++ loses its way.
PIECES = re.findall(
    r"\S+", r"""/* */ // " ' <: :> %: %:%: <:: / * u8 L R .5e+ 0x e \" _a \' + -> :: ( ) u" asm x 1 1'0 'a' "s" R"( )" ? ??/ $ @ \ #"""
)
PIECES += ["\\\n", "\\\n", "\n", "\n", " ", "\t", "\r\n", "\\ \n"]


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_what_is_accepted_is_read_as_the_compiler_reads_it(tmp_path: Path) -> None:
    draw = random.Random(20)
    compared = 0
    for _ in range(1200):
        text = "".join(draw.choice(PIECES) for _ in range(draw.randint(3, 22))) + "\n"
        lexed = lex(text)
        if lexed.problems or any(line[0].text == "#" for line in lexed.lines()):
            continue
        (tmp_path / "a.cpp").write_bytes(text.encode())
        ended = subprocess.run(["g++", "-std=c++20", "-E", "-P", "a.cpp"], cwd=tmp_path, capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            compared += 1
            assert [token.text for token in lexed.tokens] == [token.text for token in lex(ended.stdout).tokens], text
    assert compared > 50


def test_tokens_know_their_places() -> None:
    tokens = lex("a\\\nb /* \n */ c\r\n%:d <::e> f<:0:>").tokens
    assert [(token.text, token.line, token.column) for token in tokens] == [
        ("ab", 1, 1),
        ("c", 3, 5),
        ("#", 4, 1),
        ("d", 4, 3),
        ("<", 4, 5),
        ("::", 4, 6),
        ("e", 4, 8),
        (">", 4, 9),
        ("f", 4, 11),
        ("[", 4, 12),
        ("0", 4, 14),
        ("]", 4, 15),
    ]
    assert [token.logical for token in tokens] == [0, 0, *[1] * 10]


def test_a_header_s_name_is_one_token() -> None:
    kinds = [(token.kind, token.text) for token in lex('#include <a//b>\n#include "c\\"\n#if __has_include(<d>) < 3\n').tokens]
    assert ("header", "<a//b>") in kinds
    assert ("header", '"c\\"') in kinds
    assert ("header", "<d>") in kinds
    assert ("punctuation", "<") in kinds


@pytest.mark.parametrize("text", ["", "\n", " ", "\\\n", "// only a comment", "/* only a comment */"])
def test_nothing_gives_nothing(text: str) -> None:
    assert lex(text).tokens == ()
    assert lex(text).problems == ()
