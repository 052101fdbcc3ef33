"""A kernel folder is read as plain small text files and nothing else; knobs are written without touching the rest."""

from __future__ import annotations

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.candidate import Candidate, candidate_from_files, read_candidate, with_knobs, write_candidate
from runner.errors import FactoryError, FaultsError
from runner.identity import git_tree
from runner.manifest import choose_row, row_knobs
from runner.spec.models import Policy

LAUNCH = b"""# what it is
sources: [k.cpp]
knobs: {u: [1, 2], isa: [a-1, "no", "tr ue"]}   # why
launches: [{function: k, args: [x]}]
# the end
"""
SOURCE = b'extern "C" void k(const float* x) {}\n'
POLICY = Policy()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A sound kernel folder."""
    kernel = tmp_path / "kernel"
    kernel.mkdir()
    (kernel / "launch.yaml").write_bytes(LAUNCH)
    (kernel / "k.cpp").write_bytes(SOURCE)
    return kernel


def refused(folder: Path, policy: Policy = POLICY) -> str:
    with pytest.raises(FactoryError) as error:
        read_candidate(folder, policy)
    text = str(error.value)
    assert text.isprintable() or "\n" in text
    return text.replace(str(folder), "K")


def from_launch(text: str) -> Candidate:
    return candidate_from_files({"launch.yaml": text.encode(), "k.cpp": SOURCE}, "K")


def test_a_folder_is_read(folder: Path) -> None:
    candidate = read_candidate(folder, POLICY)
    assert candidate.files == {"k.cpp": SOURCE, "launch.yaml": LAUNCH}
    assert candidate.tree == git_tree({"launch.yaml": LAUNCH, "k.cpp": SOURCE})
    assert candidate.manifest.knobs["isa"] == ("a-1", "no", "tr ue")
    assert candidate == candidate_from_files(candidate.files, "elsewhere")


def test_a_link_to_a_file_is_refused(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (folder / "a.hpp").symlink_to(secret)
    assert refused(folder) == (
        "K/a.hpp:1:1: not a regular file that can be read (it is a link); links, folders, pipes and devices are not allowed"
    )


def test_a_link_to_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folder)
    assert "not a folder that can be read (a link to one is not allowed)" in refused(tmp_path / "link")


def test_folders_pipes_sockets_and_devices_are_refused(folder: Path) -> None:
    (folder / "a.hpp").mkdir()
    os.mkfifo(folder / "b.hpp")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "c.hpp"))
        found = refused(folder).splitlines()
    assert [line.split(":")[0] for line in found] == ["K/a.hpp", "K/b.hpp", "K/c.hpp"]
    assert all("links, folders, pipes and devices are not allowed" in line for line in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_refused(folder: Path) -> None:
    try:
        os.mknod(folder / "a.hpp", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("devices can't be made here")
    assert "not a regular file" in refused(folder)


@pytest.mark.parametrize(
    "name",
    [
        ".hidden.cpp",
        "a.txt",
        "a.c",
        "-o.cpp",
        "a b.cpp",
        "a;rm.cpp",
        "$(x).cpp",
        "é.cpp",
        "a.cpp\n",
        "\x1b[31m.cpp",
        "launch.yml",
        "x" * 70 + ".cpp",
    ],
)
def test_odd_names_are_refused_and_shown_harmless(folder: Path, name: str) -> None:
    (folder / name).write_text("")
    text = refused(folder)
    assert "this name is not allowed; allowed: launch.yaml, or a file name without folders that ends in .cpp, .hpp, .cu or .cuh" in text
    assert text.isprintable()
    with pytest.raises(FaultsError, match="this name is not allowed"):
        candidate_from_files({"launch.yaml": LAUNCH, "k.cpp": SOURCE, name: b""}, "K")


@pytest.mark.parametrize("name", ["../k.hpp", "/etc/k.hpp", "a/k.hpp", "..", ""])
def test_paths_are_no_names(name: str) -> None:
    with pytest.raises(FaultsError, match="this name is not allowed"):
        candidate_from_files({"launch.yaml": LAUNCH, "k.cpp": SOURCE, name: b""}, "K")


def test_names_differ_in_more_than_case(folder: Path) -> None:
    (folder / "K.cpp").write_bytes(SOURCE)
    assert "K/k.cpp:1:1: differs from `K.cpp` in upper and lower case only" in refused(folder)


def test_many_files_are_refused_before_they_are_read(folder: Path) -> None:
    for index in range(500):
        (folder / f"f{index}.hpp").write_text("")
    assert refused(folder) == "K: more than 16 files; at most 16 are allowed"
    files = {"launch.yaml": LAUNCH, "k.cpp": SOURCE, **{f"f{index}.hpp": b"" for index in range(20)}}
    with pytest.raises(FaultsError, match="22 files; at most 16"):
        candidate_from_files(files, "K")


def test_large_files_are_refused_before_they_are_read(folder: Path) -> None:
    with (folder / "big.hpp").open("wb") as file:
        file.truncate(1 << 40)  # a hole: reading it all would need a terabyte
    assert refused(folder) == "K: more than 262144 bytes; at most 262144 are allowed in all files together"


def test_the_bounds_are_the_policy_s(folder: Path) -> None:
    size = len(LAUNCH) + len(SOURCE)
    assert read_candidate(folder, Policy(max_files=2, max_bytes=size))
    assert "at most 1 are allowed" in refused(folder, Policy(max_files=1))
    assert "more than" in refused(folder, Policy(max_bytes=size - 1))
    with pytest.raises(FaultsError, match="bytes; at most"):
        candidate_from_files({"launch.yaml": LAUNCH, "k.cpp": SOURCE}, "K", Policy(max_bytes=size - 1))


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff\xfe", "1:1"),
        (b"a\nb\xc3(", "2:2"),
        ("ä\n".encode("utf-16"), "1:1"),
        (b"a\0", "1:2"),
        (b"int x;\n// \xe2\x80\xae reversed", "2:4"),
        ("a\u2067b".encode(), "1:2"),
        ("\ufeffint".encode(), "1:1"),
        ("a\u200b".encode(), "1:2"),
        ("// a\u2028asm".encode(), "1:5"),
        ("// a\x85asm".encode(), "1:5"),
        (b"// a\rasm", "1:5"),
        (b"a\x0cb", "1:2"),
        (b"\x1b[2J", "1:1"),
    ],
)
def test_text_that_does_not_show_what_it_says_is_refused(folder: Path, data: bytes, place: str) -> None:
    (folder / "k.cpp").write_bytes(data)
    assert refused(folder).startswith(f"K/k.cpp:{place}: ")


def test_ordinary_text_is_allowed(folder: Path) -> None:
    (folder / "k.cpp").write_bytes("// naïve ∑ x² — 快\r\n\tint x;\r\n".encode())
    assert read_candidate(folder, POLICY)


def test_the_manifest_must_be_there_and_its_sources_too(folder: Path) -> None:
    (folder / "launch.yaml").write_text("sources: [k.cpp, gone.cpp, k.cpp]\nlaunches: [{function: k, args: [x]}]\n")
    assert refused(folder).splitlines() == [
        "K/launch.yaml:1:18: the file `gone.cpp` is not in the folder; there: k.cpp, launch.yaml",
        "K/launch.yaml:1:28: the file `k.cpp` is listed a second time",
    ]
    (folder / "launch.yaml").unlink()
    assert refused(folder) == "K:1:1: `launch.yaml` is missing; a kernel is its sources and that file"


def test_faults_of_several_files_show_together(folder: Path) -> None:
    (folder / "k.cpp").write_bytes(b"\0")
    (folder / "x.hpp").write_bytes(b"\xff")
    assert [line.split(":")[0] for line in refused(folder).splitlines()] == ["K/k.cpp", "K/x.hpp"]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    assert "not a folder that can be read" in refused(tmp_path / "gone")
    (tmp_path / "file").write_text("")
    assert "not a folder that can be read" in refused(tmp_path / "file")


TABLES = {
    "no table": ("", "\ntable:\n  - {ROW}\n"),
    "empty": ("table: []\n", "table: [{ROW}]\n"),
    "flow": ('table: [{when: "true", u: 2, isa: a-1}]   # kept\n', "table: [{ROW}]   # kept\n"),
    "block": (
        'table:\n  # small\n  - {when: "cols < 9", u: 1, isa: a-1}\n  - when: "true"\n    u: 2\n    isa: a-1\n# after\n',
        "table:\n  # small\n  - {ROW}\n# after\n",
    ),
    "block at the margin": ('table:\n- {when: "true", u: 2, isa: a-1}\n\nscratch: {}\n', "table:\n- {ROW}\n\nscratch: {}\n"),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_knobs_replace_the_table_only(name: str) -> None:
    table, wanted = TABLES[name]
    before = "# top\nsources: [k.cpp]   # source\nknobs: {u: [1, 2], isa: [a-1]}\nlaunches: [{function: k, args: [x]}]\n"
    changed = with_knobs(from_launch(before + table), {"isa": "a-1", "u": 1})
    row = '{when: "true", u: 1, isa: a-1}'
    assert changed.files["launch.yaml"].decode() == before + wanted.replace("{ROW}", row).removeprefix("\n")
    assert changed.tree == git_tree(changed.files)
    assert row_knobs(changed.manifest, choose_row(changed.manifest, {"rows": 1})) == {"u": 1, "isa": "a-1"}
    assert with_knobs(changed, {"isa": "a-1", "u": 1}) == changed


@pytest.mark.parametrize(
    "text",
    [
        "{sources: [k.cpp], knobs: {u: [1]}, launches: [{function: k, args: [x]}]}\n",
        "{sources: [k.cpp], knobs: {u: [1]}, launches: [{function: k, args: [x]}],}   # a comma\n",
        "{sources: [k.cpp],\n knobs: {u: [1]},\n launches: [{function: k, args: [x]}]\n}\n# end",
        "--- # document\nsources: [k.cpp]\nknobs: {u: [1]}\nlaunches: [{function: k, args: [x]}]",
        "sources: [k.cpp]\r\nknobs: {u: [1]}\r\ntable: []\r\nlaunches: [{function: k, args: [x]}]\r\n",
    ],
)
def test_knobs_are_written_into_other_shapes_of_yaml(text: str) -> None:
    changed = with_knobs(from_launch(text), {"u": 1})
    assert changed.manifest.table == ({"when": "true", "u": 1},)
    assert changed.manifest.sources == ("k.cpp",)


def test_an_end_marker_is_an_expected_error_or_kept() -> None:
    text = "sources: [k.cpp]\nknobs: {u: [1]}\nlaunches: [{function: k, args: [x]}]\n...\n"
    try:
        changed = with_knobs(from_launch(text), {"u": 1})
    except FactoryError:
        return
    assert changed.manifest.table == ({"when": "true", "u": 1},)


def test_text_values_come_back_as_they_were(folder: Path) -> None:
    candidate = read_candidate(folder, POLICY)
    for isa in candidate.manifest.knobs["isa"]:
        assert row_knobs(with_knobs(candidate, {"u": 2, "isa": isa}).manifest, 0) == {"u": 2, "isa": isa}


@given(st.text(min_size=1, max_size=8).filter(lambda text: all(letter.isprintable() for letter in text)))
def test_any_text_value_comes_back(value: str) -> None:
    text = f"sources: [k.cpp]\nknobs: {{isa: [{json.dumps(value, ensure_ascii=False)}]}}\nlaunches: [{{function: k, args: [x]}}]\n"
    try:
        candidate = from_launch(text)
    except FaultsError:
        return  # a character that YAML or the policy refuses
    assert row_knobs(with_knobs(candidate, {"isa": value}).manifest, 0) == {"isa": value}


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"u": 1}, "the knobs are u, isa; not u"),
        ({"u": 1, "isa": "a-1", "x": 1}, "the knobs are u, isa; not u, isa, x"),
        ({"u": 3, "isa": "a-1"}, "the knob `u` can't be 3; allowed: 1, 2"),
        ({"u": True, "isa": "a-1"}, "the knob `u` can't be True"),
        ({"u": "1", "isa": "a-1"}, "the knob `u` can't be '1'"),
        ({"u": 1, "isa": 'a"}]'}, "the knob `isa` can't be"),
    ],
)
def test_only_points_of_the_space_can_be_chosen(folder: Path, knobs: dict[str, int | str], message: str) -> None:
    with pytest.raises(FactoryError, match="^" + message.replace("(", r"\(")):
        with_knobs(read_candidate(folder, POLICY), knobs)


def test_without_knobs_a_candidate_stays_itself() -> None:
    candidate = from_launch("sources: [k.cpp]\nlaunches: [{function: k, args: [x]}]\n")
    assert with_knobs(candidate, {}) is candidate


def test_writing_replaces_the_whole_folder(folder: Path, tmp_path: Path) -> None:
    candidate = read_candidate(folder, POLICY)
    other = tmp_path / "deep" / "other"
    write_candidate(candidate, other)
    assert read_candidate(other, POLICY) == candidate
    (other / "stale.hpp").write_text("")
    (tmp_path / "deep" / ".other.new").mkdir()  # left by a process that was killed
    changed = with_knobs(candidate, {"u": 2, "isa": "a-1"})
    write_candidate(changed, other)
    assert read_candidate(other, POLICY) == changed
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["other"]


def test_whoever_looks_while_a_kernel_is_written_sees_one_or_the_other(folder: Path, tmp_path: Path) -> None:
    one = with_knobs(read_candidate(folder, POLICY), {"u": 1, "isa": "a-1"})
    two = with_knobs(one, {"u": 2, "isa": "a-1"})
    place = tmp_path / "place"
    write_candidate(one, place)
    seen: set[str] = set()
    odd: list[str] = []
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            try:
                seen.add(read_candidate(place, POLICY).tree)
            except FactoryError as error:  # the folder was swapped away and deleted while it was read: never a mixture
                odd.append(str(error))

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(50):
        write_candidate(two, place)
        write_candidate(one, place)
    done.set()
    watcher.join()
    assert seen <= {one.tree, two.tree}
    assert seen
    assert all("not a folder" not in text for text in odd)


def test_where_nothing_can_be_written_is_an_expected_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FactoryError, match="the kernel can't be written"):
        write_candidate(read_candidate(folder, POLICY), tmp_path / "file" / "kernel")
