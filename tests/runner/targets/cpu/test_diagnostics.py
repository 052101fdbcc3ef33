"""What of the compiler's messages is published."""

from __future__ import annotations

from runner.targets.cpu.diagnostics import MAX_CHARACTERS, readable

FILES = {"a.cpp", "b.hpp"}


def test_messages_about_the_candidates_files_are_kept_with_their_lines() -> None:
    text = """\
/src/a.cpp: In function 'void scale(const float*)':
/src/a.cpp:3:5: error: 'z' was not declared in this scope
    3 |     z = 1;
      |     ^
/src/b.hpp:1:1: warning: unused
"""
    assert readable(text, FILES) == (
        "a.cpp: In function 'void scale(const float*)':\n"
        "a.cpp:3:5: error: 'z' was not declared in this scope\n"
        "    3 |     z = 1;\n"
        "      |     ^\n"
        "b.hpp:1:1: warning: unused"
    )


def test_messages_about_other_files_are_left_out_with_what_they_quote() -> None:
    text = """\
In file included from /src/a.cpp:1:
/usr/share/secret:1:1: error: 'the' does not name a type
    1 | the secret
      | ^~~
/src/a.cpp:2:1: error: expected
    2 | x
/etc/passwd:1:5: error: root
    1 | root:x:0
"""
    assert readable(text, FILES) == "a.cpp:2:1: error: expected\n    2 | x"


def test_paths_that_only_look_like_the_candidates_are_left_out() -> None:
    assert readable("/src/../etc/a.cpp:1:1: error: x\n/tmp/a.cpp:1:1: error: y\n/src/c.cpp:1:1: error: z\n", FILES) == ""


def test_the_linkers_symbols_are_kept_without_paths() -> None:
    text = """\
/usr/bin/ld: /tmp/ccX.o: in function `kf_call':
entry.cpp:(.text+0x1): undefined reference to `scale'
collect2: error: ld returned 1 exit status
"""
    assert readable(text, FILES) == "error: undefined reference to `scale'"


def test_control_characters_are_not_passed_on() -> None:
    assert readable("/src/a.cpp:1:1: error: \x1b[31mred\x07\n", FILES) == "a.cpp:1:1: error: ?[31mred?"


def test_messages_are_bounded() -> None:
    assert len(readable("/src/a.cpp:1:1: error: x\n" * 10_000, FILES)) <= MAX_CHARACTERS + 2
