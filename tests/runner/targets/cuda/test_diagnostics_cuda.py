"""What of the compiler's messages is published: those about the candidate's own files, and ptxas's report in numbers."""

from __future__ import annotations

from runner.targets.cuda.diagnostics import MAX_CHARACTERS, readable, resources

LOG = """\
/src/rmsnorm.cu(3): error: identifier "z" is undefined
    y[0] = z;
           ^

/include/0/cuda_bf16.h(77): error: something in a header
    a line of the header

__nv_name_map(3): error: identifier "rmsnorm_fast" is undefined
  #pragma nv_mangled_name rmsnorm_fast
                          ^

__nv_name_map(3): error: Error in parsing name expression for lowered name lookup. Input name expression was: " rmsnorm_fast"
  #pragma nv_mangled_name rmsnorm_fast

/etc/passwd(1): error: expected a declaration
  root:x:0:0:root:/root:/bin/bash

\0ptxas error   : Entry function 'k' uses too much shared data (0x3a980 bytes, 0x38c00 max)
ptxas fatal   : Ptx assembly aborted due to errors
"""


def test_messages_about_the_candidate_and_of_the_assembler_are_kept() -> None:
    text = readable(LOG, {"rmsnorm.cu"})
    assert text.splitlines() == [
        'rmsnorm.cu:3: error: identifier "z" is undefined',
        "    y[0] = z;",
        "           ^",
        "error: in a header that the candidate includes",
        'launch.yaml: error: identifier "rmsnorm_fast" is undefined',
        "error: in a header that the candidate includes",
        "ptxas error   : Entry function 'k' uses too much shared data (0x3a980 bytes, 0x38c00 max)",
        "ptxas fatal   : Ptx assembly aborted due to errors",
    ]


def test_no_line_of_another_file_is_quoted() -> None:
    assert "root" not in readable(LOG, {"rmsnorm.cu"})
    assert "rmsnorm.cu" not in readable(LOG, {"other.cu"})


def test_messages_are_printable_and_end() -> None:
    text = readable("/src/a.cu(1): error: \x1b[31mred\u202e\n" * 5000, {"a.cu"})
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) <= MAX_CHARACTERS + 2


def test_resources_of_each_entry() -> None:
    log = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
ptxas         .     16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads
ptxas info    : Used 10 registers, used 1 barriers, 240000 bytes smem
ptxas info    : Compiling entry function '_Z4moreIiEvv' for 'sm_90a'
ptxas info    : Used 255 registers
"""
    assert resources(log) == {
        "k": {"static_shared": 240000, "stack": 16, "spill_stores": 8, "spill_loads": 4, "registers": 10},
        "_Z4moreIiEvv": {"static_shared": 0, "registers": 255},
    }
