"""`result.json`: written whole or not at all, and read with every doubt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from results import make_result, make_row

from runner import result as result_module
from runner.errors import FactoryError
from runner.result import load_result, write_result


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    result = make_result()
    write_result(result, tmp_path / "deep" / "result.json")
    assert load_result(tmp_path / "deep" / "result.json") == result
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["result.json"]


def test_the_file_speaks_the_schema_s_names(tmp_path: Path) -> None:
    write_result(make_result(), tmp_path / "result.json")
    data = json.loads((tmp_path / "result.json").read_text())
    assert data["schema"] == "kernel-result/v1"
    assert data["rows"][0]["copy"]["name"] == "memcpy"


def test_an_infinite_error_survives_as_nothing(tmp_path: Path) -> None:
    write_result(make_result((make_row(error=float("inf")),)), tmp_path / "result.json")
    assert load_result(tmp_path / "result.json").rows[0].error is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.update(schema="kernel-result/v2"), "schema"),
        (lambda data: data.update(verdict="excellent"), "verdict"),
        (lambda data: data.pop("identity"), "identity: Field required"),
        (lambda data: data.update(more=1), "more: Extra inputs"),
        (lambda data: data["rows"][0].update(speedup="fast"), r"rows\.0\.speedup"),
    ],
)
def test_what_is_no_result_is_told(tmp_path: Path, change: object, message: str) -> None:
    path = tmp_path / "result.json"
    write_result(make_result(), path)
    data = json.loads(path.read_text())
    assert callable(change)
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(FactoryError, match=message):
        load_result(path)


def test_a_file_that_is_not_there_or_no_json_is_told(tmp_path: Path) -> None:
    with pytest.raises(FactoryError, match="cannot be read"):
        load_result(tmp_path / "none.json")
    (tmp_path / "text.json").write_text("hello")
    with pytest.raises(FactoryError, match="not a kernel-result/v1: the whole file"):
        load_result(tmp_path / "text.json")


def test_a_file_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_result(make_result(), tmp_path / "result.json")
    monkeypatch.setattr(result_module, "MAX_RESULT_BYTES", 100)
    with pytest.raises(FactoryError, match="larger than 100 bytes"):
        load_result(tmp_path / "result.json")


def test_a_place_that_can_t_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FactoryError, match="cannot be written"):
        write_result(make_result(), tmp_path / "file" / "result.json")
