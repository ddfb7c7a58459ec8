"""Measurements in README and docs are those in `benchmarks/results`."""

import re

import pytest

from benchmarks.tables import PASSAGE, RESULTS, pages, updated

PAGES = {page.name: page for page in pages()}
"""The pages that may hold tables, by name."""

NOT_PROSE = re.compile(r"```.*?```|^    .*?$|`[^`]*`|\$[^$]+\$", re.DOTALL | re.MULTILINE)
"""Code and formulas."""

MEASUREMENT = re.compile(
    r"\d ?(?:ms|s|µs|[MG]B/s|dB)\b|\d\.\d+ ×|\d\.\d+ %|\b0\.\d{3,}|\d·10⁻|^\|.*\d\.\d.*$",
    re.MULTILINE,
)
"""Times, rates, ratios, objectives and decimal percentages; settings do not look like these."""


@pytest.mark.parametrize("name", PAGES)
def test_generated_tables_are_up_to_date(name):
    page = PAGES[name].read_text()
    assert updated(page) == page, "run python -m benchmarks.tables"


@pytest.mark.parametrize("name", PAGES)
def test_measurements_are_only_in_generated_tables(name):
    prose = NOT_PROSE.sub("", PASSAGE.sub("", PAGES[name].read_text()))
    assert [found[0] for found in MEASUREMENT.finditer(prose)] == []


@pytest.mark.parametrize("name", PAGES)
def test_generated_passages_are_tables_without_prose(name):
    for passage in PASSAGE.finditer(PAGES[name].read_text()):
        lines = passage[0].splitlines()[2:-2]
        assert all(line.startswith("| ") for line in lines), passage.group(2, 3)


def test_every_mark_belongs_to_a_passage():
    for page in PAGES.values():
        text = page.read_text()
        n_passages = len(PASSAGE.findall(text))
        assert text.count("<!-- begin ") == text.count("<!-- end -->") == n_passages


def test_the_results_of_every_benchmark_are_documented():
    documented = {
        found[2] for page in PAGES.values() for found in PASSAGE.finditer(page.read_text())
    }
    assert documented == {path.stem for path in RESULTS.glob("*.json")}


def test_a_number_that_was_changed_by_hand_is_restored():
    page = PAGES["speed.md"].read_text()
    number = re.search(r"\*\*([\d.]+)\*\*", page)
    assert updated(page[: number.start(1)] + "0.1" + page[number.end(1) :]) == page
