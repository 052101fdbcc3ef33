"""The notebook keeps every experiment once, for several processes at a time, and loses nothing when something is wrong."""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from bot.evidence.notebook import Notebook
from bot.evidence.remark import Remark
from runner.errors import FactoryError
from runner.verdict import Verdict


@pytest.fixture
def notebook(tmp_path):
    with Notebook(tmp_path / "notebook.sqlite3") as book:
        yield book


def test_an_experiment_comes_back_as_it_was_recorded(notebook, make_experiment):
    experiment = make_experiment(3, 1.25, knobs={"isa": "x86-64-v3", "unroll": 4}, workloads={"64x1024": 1.2}, normalized="ab")
    assert notebook.record(experiment)
    assert notebook.get(experiment.id) == experiment
    assert notebook.experiments("a-spec") == [experiment]
    assert notebook.experiments("another-spec") == []
    assert notebook.get("c1/9/tpe/9") is None


def test_recording_twice_changes_nothing(notebook, make_experiment):
    assert notebook.record(make_experiment(0, 1.25))
    assert not notebook.record(make_experiment(0, 1.25))
    assert notebook.count("c1") == 1


def test_another_experiment_under_the_same_id_is_refused_and_the_first_kept(notebook, make_experiment):
    notebook.record(make_experiment(0, 1.25))
    with pytest.raises(FactoryError, match=r"another experiment is already recorded as c1/1/tpe/0"):
        notebook.record(make_experiment(0, 1.26))
    assert notebook.experiments("a-spec") == [make_experiment(0, 1.25)]


def remark(review, text="Too many knobs.", campaign="c1"):
    return Remark(campaign=campaign, spec="a-spec", review=review, by="ada", text=text, kernel_tree="a" * 40)


def test_what_people_said_is_kept_once_and_in_order(notebook):
    for one in (remark(9), remark(3), remark(9, "Edited afterwards."), remark(9, campaign="c2")):
        notebook.remark(one)
    assert notebook.remarks("a-spec") == [remark(9), remark(3), remark(9, campaign="c2")]
    assert notebook.remarks("another-spec") == []


def test_a_notebook_from_before_there_were_remarks_keeps_them_now(make_experiment, tmp_path):
    path = tmp_path / "notebook.sqlite3"
    with Notebook(path) as book:
        book.record(make_experiment(0, 1.25))
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE remarks")
    connection.close()
    with Notebook(path) as book:
        book.remark(remark(1))
        assert book.remarks("a-spec") == [remark(1)]
        assert book.experiments("a-spec") == [make_experiment(0, 1.25)]


def test_the_order_does_not_depend_on_when_something_was_recorded(notebook, make_experiment):
    made = [
        make_experiment(index, 1.0, campaign=campaign, round=number, agent=agent)
        for campaign in ("c1", "c2")
        for number in (1, 2, 10)
        for agent in ("local", "tpe")
        for index in (0, 1, 2, 10)
    ]
    for experiment in random.Random(5).sample(made, len(made)):
        notebook.record(experiment)
    assert notebook.experiments("a-spec") == made
    assert notebook.experiments("a-spec", campaign="c2") == made[len(made) // 2 :]
    assert notebook.experiments("a-spec", first="c2") == made[len(made) // 2 :] + made[: len(made) // 2]
    assert notebook.count("c2") == len(made) // 2


def test_trials_are_the_screened_points_of_one_space_on_one_device_over_all_campaigns(notebook, make_experiment):
    alike = [make_experiment(0, 1.1, knobs={"unroll": 1}), make_experiment(0, None, campaign="c2", knobs={"unroll": 2}, message="died")]
    other = [
        make_experiment(1, 1.1, tier="full"),
        make_experiment(2, 1.1, spec_hash="0" * 64),
        make_experiment(3, 1.1, device="another"),
        make_experiment(4, 1.1, source="0" * 64),
        make_experiment(5, None, verdict=Verdict.EVALUATION_LOST),
        make_experiment(6, 1.1, against="champion"),
    ]
    for experiment in alike + other:
        notebook.record(experiment)
    trials = notebook.trials("a-spec", "5" * 64, "a CPU with two cores", "7" * 64)
    assert [(dict(trial.knobs), trial.verdict, trial.message, trial.speedup) for trial in trials] == [
        ({"unroll": 1}, Verdict.SLOWER, "", 1.1),
        ({"unroll": 2}, Verdict.LAUNCH_ERROR, "died", None),
    ]


def test_an_export_is_read_back_whole_and_once(notebook, make_experiment, tmp_path):
    made = [make_experiment(index, None if index % 3 == 0 else 1 + index / 7, message="a\nb “c” \u2028") for index in range(20)]
    for experiment in made:
        notebook.record(experiment)
    assert notebook.export(tmp_path / "out" / "notebook.jsonl") == 20
    with Notebook(tmp_path / "other.sqlite3") as other:
        assert other.import_(tmp_path / "out" / "notebook.jsonl") == 20
        assert other.import_(tmp_path / "out" / "notebook.jsonl") == 0
        assert other.experiments("a-spec") == made


def test_a_faulty_import_names_the_line_and_adds_nothing(notebook, make_experiment, tmp_path):
    notebook.record(make_experiment(0, 1.0))
    notebook.record(make_experiment(1, 1.0))
    path = tmp_path / "notebook.jsonl"
    notebook.export(path)
    lines = path.read_text().splitlines()
    with Notebook(tmp_path / "other.sqlite3") as other:
        path.write_text("\n".join([*lines[:2], lines[2].replace('"round":1', '"round":"one"')]))
        with pytest.raises(FactoryError, match=r"notebook\.jsonl:3:1: not an experiment: round: "):
            other.import_(path)
        path.write_text("\n".join(lines[1:]))
        with pytest.raises(FactoryError, match=r"notebook\.jsonl:1:1: the first line must be"):
            other.import_(path)
        path.write_text("\n".join([lines[0], lines[1], lines[1].replace('"speedup":1.0', '"speedup":2.0')]))
        with pytest.raises(FactoryError, match="another experiment"):
            other.import_(path)
        assert other.count("c1") == 0
        with pytest.raises(FactoryError, match="can't be read"):
            other.import_(tmp_path / "nowhere.jsonl")


WRITER = """
    import sys
    from pathlib import Path
    from bot.evidence.experiment import Experiment
    from bot.evidence.notebook import Notebook

    path, agent, template = sys.argv[1:]
    with Notebook(Path(path)) as notebook:
        made = Experiment.model_validate_json(template)
        for index in range(40):
            notebook.record(made.model_copy(update={"id": f"c1/1/{agent}/{index}", "agent": agent, "index": index}))
            notebook.record(made.model_copy(update={"id": f"c1/1/shared/{index}", "agent": "shared", "index": index}))
            assert len(notebook.experiments("a-spec")) > index
"""


def test_processes_write_and_read_one_notebook_at_the_same_time(make_experiment, tmp_path):
    path, template = tmp_path / "notebook.sqlite3", make_experiment(0, 1.0).model_dump_json()
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path)]
    processes = [subprocess.Popen([*command, agent, template], stderr=subprocess.PIPE, text=True) for agent in ("one", "two", "three")]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    with Notebook(path) as notebook:
        assert notebook.count("c1") == 160


def test_threads_may_share_a_notebook(notebook, make_experiment):
    def write(agent: str) -> None:
        for index in range(25):
            notebook.record(make_experiment(index, 1.0, agent=agent))

    threads = [threading.Thread(target=write, args=(agent,)) for agent in ("one", "two", "three")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notebook.count("c1") == 75


def test_a_killed_writer_leaves_whole_experiments_only(make_experiment, tmp_path):
    path, template = tmp_path / "notebook.sqlite3", make_experiment(0, 1.0).model_dump_json()
    code = textwrap.dedent(WRITER).replace("range(40)", "range(100_000)")
    process = subprocess.Popen([sys.executable, "-c", code, str(path), "one", template])
    while True:
        with Notebook(path) as notebook:
            if notebook.count("c1") > 20:
                break
    process.kill()
    process.wait()
    with Notebook(path) as notebook:
        kept = notebook.experiments("a-spec")
    assert len(kept) > 20
    assert {experiment.speedup for experiment in kept} == {1.0}


def _damage_header(path: Path) -> None:
    path.write_bytes(b"not a database, just text that somebody put there" * 20)


def _damage_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(bytes(data))


def _newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def _another_program(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE letters (text TEXT)")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_damage_header, "can't be used: file is not a database"),
        (_damage_page, "damaged|malformed"),
        (_newer, "written by a newer version"),
        (_another_program, "is not a notebook"),
    ],
)
def test_a_file_that_is_no_readable_notebook_is_told_and_left_as_it_is(harm, message, make_experiment, tmp_path):
    path = tmp_path / "notebook.sqlite3"
    with Notebook(path) as notebook:
        for index in range(50):
            notebook.record(make_experiment(index, 1.0))
    harm(path)
    before = path.read_bytes()
    with pytest.raises(FactoryError, match=message):
        Notebook(path)
    assert path.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FactoryError, match="can't be opened"):
        Notebook(tmp_path / "file" / "notebook.sqlite3")


def test_a_moved_notebook_still_has_everything(make_experiment, tmp_path):
    with Notebook(tmp_path / "a" / "notebook.sqlite3") as notebook:
        notebook.record(make_experiment(0, 1.0))
    shutil.move(tmp_path / "a", tmp_path / "b")
    with Notebook(tmp_path / "b" / "notebook.sqlite3") as notebook:
        assert notebook.count("c1") == 1
