"""A spec folder loads, or shows every fault at its line and column in one pass."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from runner.errors import FactoryError, FaultsError
from runner.identity import spec_hash
from runner.spec.load import LoadedSpec, load_spec

ROOT = Path(__file__).parents[3]
SPECS = ROOT / "tests" / "data" / "specs"
FAULTY = sorted(folder.name for folder in SPECS.iterdir() if (folder / "faults.txt").exists())
GOOD = SPECS / "good-spec"


def faults_of(folder: Path) -> list[str]:
    """Every fault of a spec folder, with files relative to it."""
    with pytest.raises(FaultsError) as error:
        load_spec(folder)
    return str(error.value).replace(f"{folder}/", "").splitlines()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A good spec to break."""
    folder = tmp_path / "good-spec"
    shutil.copytree(GOOD, folder)
    return folder


def replace(folder: Path, old: str, new: str, file: str = "spec.yaml") -> None:
    text = (folder / file).read_text()
    assert text.count(old) == 1, old
    (folder / file).write_text(text.replace(old, new))


@pytest.mark.parametrize("name", FAULTY)
def test_every_fault_is_shown_at_its_place(name: str) -> None:
    assert faults_of(SPECS / name) == (SPECS / name / "faults.txt").read_text().splitlines()


def test_there_are_faulty_specs() -> None:
    assert {"six-faults", "many-faults", "broken-form", "no-draws", "lengths", "workload-values"} <= set(FAULTY)


def test_six_faults_of_form_meaning_and_files_show_at_once() -> None:
    assert [line.split(":")[1] for line in faults_of(SPECS / "six-faults")] == ["8", "10", "12", "16", "20", "23"]


def test_a_good_spec_loads() -> None:
    loaded = load_spec(GOOD)
    assert isinstance(loaded, LoadedSpec)
    assert loaded.spec.id == "good-spec"
    assert loaded.folder == GOOD
    assert loaded.spec_hash == spec_hash(GOOD)
    assert loaded.spec.scalars["scale"].value == 0.15
    assert loaded.spec.workloads.hidden[1].axes["rows"] == 7


@pytest.mark.parametrize("folder", sorted((ROOT / "kernel-specs").iterdir()), ids=lambda folder: folder.name)
def test_the_specs_of_this_repository_load(folder: Path) -> None:
    assert load_spec(folder).spec.id == folder.name


def test_the_issue_s_demands_on_rmsnorm_cpu() -> None:
    spec = load_spec(ROOT / "kernel-specs" / "rmsnorm-cpu").spec
    assert len(spec.workloads.public) >= 10
    sizes = [8 * item.axes["rows"] * item.axes["cols"] for item in spec.workloads.public]
    assert min(sizes) <= 1 << 20
    assert max(sizes) >= 4 * (32 << 20)
    edge = spec.workloads.edge
    assert {0, 1} <= {item.axes["rows"] for item in edge}
    assert 1 in {item.axes["cols"] for item in edge}
    assert any(item.offset for item in edge)
    planted = {special.value for item in edge for init in item.init.values() for special in init.special}
    assert {"inf", "-inf", "denormal", "zero"} <= planted
    assert any(init.row_scale for item in spec.workloads.hidden for init in item.init.values())
    assert 3 <= len(spec.workloads.screening) <= 4


def test_the_current_folder_can_be_named_by_a_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(GOOD)
    assert load_spec(Path()).spec.id == "good-spec"


# What is changed, into what, where in the changed text the fault then stands, and what it says.
CHANGES = [
    ("expr: cols // 2", "expr: cos // 2", "cos //", "`cos` is not an axis or a scalar (did you mean `cols`?)"),
    ("optional: true, init", "optional: false, init", "bias], init", "`bias` is not an optional tensor; allowed: none"),
    ("absent: [bias]", "absent: [biass]", "biass]", "`biass` is not an optional tensor (did you mean `bias`?); allowed: bias"),
    ("screening: [small]", "screening: [small, smal]", "smal]", "`smal` is not a public workload (did you mean `small`?)"),
    ("speedup: 1.05, min", "speedup: 1.04, min", "1.05}", "`min_workload_speedup` is 1.05; allowed: at most `min_speedup`, 1.04"),
    ("rows: 16, cols: 64", "rows: 16, cols: 63", "{rows: 16", "the constraint `cols % 2 == 0` does not hold for rows = 16, cols = 63"),
    ("rows: 16, cols: 64", "rows: 4097, cols: 64", "4097,", "the axis `rows` is 4097; allowed: from 0 to 4096"),
    ("start: seeds/fast", "start: seeds/slow", "seeds/slow", "the file `seeds/slow/launch.yaml` is missing; there are: kernel, seeds/fast"),
    ("reference: reference.py:pairs", "reference: baselines.py:pairs", "baselines.py", "`baselines.py:pairs` needs `out`, `count`"),
    ("id: good-spec", "id: bad-spec", "bad-spec", "`id` is `bad-spec`, but the folder is called `good-spec`"),
    ("independent: [rows]", "independent: [rows, cols]", "cols]\n\n", "`cols` is not independent"),
    ("flops: 3 * rows * half", "flops: 9 ** 9 ** 9 * rows", "{rows: 16", "an exponent lies between -64 and 64"),
]


@pytest.mark.parametrize(("old", "new", "at", "fault"), CHANGES)
def test_one_change_one_fault_at_its_place(copy: Path, old: str, new: str, at: str, fault: str) -> None:
    replace(copy, old, new)
    before = (copy / "spec.yaml").read_text().split(at)[0]
    place = f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
    first = faults_of(copy)[0]
    assert first.startswith(f"spec.yaml:{place}: ")
    assert fault in first


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("n: int, extra: int = 0", "n: int, extra: int", "needs `extra`, which it is not given"),
        ("n: int, extra: int = 0", "m: int = 0", "has no argument `n`"),
        ("def pairs(", "class Pairs:\n    pass\n\n\ndef other(", "defines no function `pairs`; it defines: other"),
    ],
)
def test_a_function_must_take_what_it_is_called_with(copy: Path, old: str, new: str, fault: str) -> None:
    replace(copy, old, new, "reference.py")
    assert any(line.startswith("spec.yaml:23:12: ") and fault in line for line in faults_of(copy))


def test_reference_code_is_not_run_to_check_it(copy: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (copy / "reference.py").write_text(f"open({str(mark)!r}, 'w')\n" + (copy / "reference.py").read_text())
    load_spec(copy)
    assert not mark.exists()


@pytest.mark.parametrize("content", [b"\0", b"\xff\xfe", b"x = " + b"(" * 5000, b"# " + b"a" * 1_000_001, b"def f(:\n"])
def test_a_broken_file_is_one_fault(copy: Path, content: bytes) -> None:
    (copy / "reference.py").write_bytes(content)
    assert [line.split(":")[0] for line in faults_of(copy)] == ["reference.py"]


def test_links_and_pipes_are_not_read(copy: Path, tmp_path: Path) -> None:
    (copy / "reference.py").unlink()
    (copy / "reference.py").symlink_to("baselines.py")
    assert "can't be read in the spec's folder: it is a link" in faults_of(copy)[0]
    (copy / "reference.py").unlink()
    os.mkfifo(copy / "reference.py")
    assert "it is not a regular file" in faults_of(copy)[0]
    (copy / "spec.yaml").unlink()
    os.mkfifo(copy / "spec.yaml")
    with pytest.raises(FactoryError, match="it is not a regular file"):
        load_spec(copy)


def test_a_folder_without_a_spec_is_an_expected_error(tmp_path: Path) -> None:
    with pytest.raises(FactoryError, match="the spec can't be read: No such file"):
        load_spec(tmp_path)


@pytest.mark.parametrize("text", ["- 1\n", "3\n", "a: &x [*x]\n", "", "axes: 1\ninputs: []\noutputs: 2\nworkloads: 3\ntolerance: x\n"])
def test_hostile_specs_are_faults(copy: Path, text: str) -> None:
    (copy / "spec.yaml").write_text(text)
    assert faults_of(copy)
