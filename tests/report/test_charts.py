"""Charts show their data, whatever its range."""

import re

import numpy as np
import pytest

from somf.report.charts import bar_chart, line_chart, number


@pytest.mark.parametrize(
    "values",
    [
        [1.0],
        [2.0, 2.0],
        [0.0, 0.0],
        [1e-12, 3e-12],
        [-5.0, 1e9],
        [0.1329, 0.1328, 0.1327],
        [5e-324],
        [5e-324, 1e-323],
        [1e-300, 5e-324],
        [-1e290, 1e290],
    ],
)
def test_a_line_is_inside_its_frame_and_has_labels(values):
    chart = line_chart(range(len(values)), values, "samples", "objective")
    (path,) = re.findall(r'class="line" d="M([^"]*)"', chart)
    points = np.array([point.split() for point in path.split("L")], dtype=float)
    assert len(points) == len(values)
    assert ((points > 0) & (points < [400, 240])).all()
    assert 2 <= len(re.findall(r'<text class="end"', chart)) <= 8


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, -1e308])
def test_values_that_no_axis_can_show_are_not_drawn(value):
    assert "not drawn" in line_chart([0, 1], [value, 1], "x", "y")


def test_higher_values_are_higher_up():
    (path,) = re.findall(r'class="line" d="M([^"]*)"', line_chart([0, 1], [1, 2], "x", "y"))
    first, second = (float(point.split()[1]) for point in path.split("L"))
    assert second < first


def test_a_long_line_is_thinned_out_and_keeps_its_last_point():
    chart = line_chart(np.arange(10_000), np.arange(10_000), "x", "y")
    assert len(chart) < 20_000
    assert "388.0 " in chart


def test_bars_without_height_are_drawn():
    assert "nan" not in bar_chart(np.zeros(3), "x", "y")


def test_labels_are_escaped():
    assert "<b>" not in line_chart([0, 1], [0, 1], "<b>", '"<b>')


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1\u202f234\u202f567"), (-3, "−3"), (0.12345, "0.1235"), (2.0, "2")],
)
def test_numbers_are_written_for_people(value, text):
    assert number(value) == text


@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e4, 1e6, 1e12])
def test_labels_beside_a_chart_are_short_enough_to_be_seen(scale):
    chart = line_chart(np.arange(5.0), scale * np.array([1.3, -0.2, 0.9, 1.1, 0.75]), "x", "y")
    labels = re.findall(r'<text class="end"[^>]*>([^<]*)</text>', chart)
    assert len(set(labels)) == len(labels) >= 3
    assert max(map(len, labels)) <= 8
