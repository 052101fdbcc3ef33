"""The convergence plot is a picture of any campaign, also of one in which nothing could be timed."""

from __future__ import annotations

import random
import struct
import zlib

import pytest

from bot.dashboard import convergence
from bot.dashboard.convergence import plain, write_plot
from runner.verdict import Verdict


def size(png: bytes) -> tuple[int, int]:
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", png[16:24])
    return width, height


def colours(png: bytes) -> int:
    """How many distinct bytes the image data has: one for a blank picture."""
    data, place = b"", 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == b"IDAT":
            data += png[place + 8 : place + 8 + length]
        place += length + 12
    return len(set(zlib.decompress(data)))


@pytest.fixture
def campaign(make_experiment):
    generator = random.Random(1)
    verdicts = [verdict for verdict in Verdict if verdict not in (Verdict.ACCEPTED, Verdict.SLOWER)]
    failed = [make_experiment(index, None, verdict=verdict) for index, verdict in enumerate(verdicts)]
    timed = [make_experiment(index, generator.uniform(0.5, 2), agent=generator.choice(["tpe", "local"])) for index in range(20, 50)]
    full = [make_experiment(60, 1.4, tier="full", verdict="accepted"), make_experiment(61, 0.9, tier="full", agent="champion")]
    return [*failed, *timed, *full]


def test_a_campaign_gives_a_picture(campaign, tmp_path):
    path = tmp_path / "results" / "plot.png"
    write_plot(campaign, path, min_speedup=1.05, title="RMSNorm in fp32")
    assert size(path.read_bytes()) == (1440, 1320)
    assert colours(path.read_bytes()) > 50


def test_the_same_campaign_gives_the_same_picture_in_any_order(campaign, tmp_path):
    write_plot(campaign, tmp_path / "a.png", min_speedup=1.05)
    write_plot(campaign[::-1], tmp_path / "b.png", min_speedup=1.05)
    write_plot(campaign[1:], tmp_path / "c.png", min_speedup=1.05)
    one, again, other = ((tmp_path / name).read_bytes() for name in ("a.png", "b.png", "c.png"))
    assert one == again
    assert one != other


def test_every_verdict_has_its_sign():
    assert set(convergence._SIGNS) == set(Verdict)
    assert len(set(convergence._SIGNS.values())) == len(Verdict)


@pytest.mark.parametrize("count", [0, 1])
def test_campaigns_with_nothing_timed_or_one_point_give_pictures(count, make_experiment, tmp_path):
    write_plot([make_experiment(index, None) for index in range(count)], tmp_path / "failed.png", title="T")
    write_plot([make_experiment(index, 1.0) for index in range(count)], tmp_path / "timed.png")
    assert size((tmp_path / "failed.png").read_bytes()) == size((tmp_path / "timed.png").read_bytes()) == (1440, 1320)


@pytest.mark.parametrize("title", ["$x^2$", r"\frac{$", "one $ only", "標題 🚀", "a\nb", "x" * 500])
def test_any_title_can_be_drawn(title, make_experiment, tmp_path):
    write_plot([make_experiment(0, 1.0)], tmp_path / "plot.png", title=title)
    assert size((tmp_path / "plot.png").read_bytes()) == (1440, 1320)


def test_a_formula_is_no_formula():
    assert plain("a $x$\n b") == r"a \$x\$ b"
