"""Numbers in README and docs are those that the benchmarks have written down."""

import re

import pytest

from benchmarks.tables import PASSAGE, RESULTS, pages, renewed

PAGES = {page.name: page for page in pages()}

# Code and formulas.
NO_PROSE = re.compile(r"```.*?```|^    .*?$|`[^`]*`|\$[^$]+\$", re.DOTALL | re.MULTILINE)

# Times, rates and ratios; objectives; decimal percentages: what a setting does not look like.
MEASURED = re.compile(
    r"\d ?(?:ms|s|µs|[MG]B/s|dB)\b|\d\.\d+ ×|\d\.\d+ %|\b0\.\d{3,}|\d·10⁻|^\|.*\d\.\d.*$",
    re.MULTILINE,
)


@pytest.mark.parametrize("name", PAGES)
def test_numbers_are_those_of_the_results(name):
    page = PAGES[name].read_text()
    assert renewed(page) == page, "python -m benchmarks.tables brings it up to date"


@pytest.mark.parametrize("name", PAGES)
def test_no_measurement_stands_outside_of_what_is_made_of_results(name):
    prose = NO_PROSE.sub("", PASSAGE.sub("", PAGES[name].read_text()))
    assert [found[0] for found in MEASURED.finditer(prose)] == []


def test_every_mark_opens_a_passage():
    for page in PAGES.values():
        text = page.read_text()
        n_passages = len(PASSAGE.findall(text))
        assert text.count("<!-- begin ") == text.count("<!-- end -->") == n_passages


def test_all_results_are_documented():
    documented = {
        found[2] for page in PAGES.values() for found in PASSAGE.finditer(page.read_text())
    }
    assert documented == {path.stem for path in RESULTS.glob("*.json")}


def test_a_number_that_was_changed_by_hand_is_found():
    page = PAGES["speed.md"].read_text()
    number = re.search(r"\*\*([\d.]+)\*\*", page)
    assert renewed(page[: number.start(1)] + "0.1" + page[number.end(1) :]) == page
