"""The pages of docs/: their examples run, the reference is complete, and the site builds."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import somf
from somf import callbacks, data, errors, plotting, report
from tests.helpers.browser import Browser, needs_browser

DOCS = Path(__file__).parents[2] / "docs"
"""The folder of the pages."""

TESTS = Path(__file__).parents[1]
"""The folder of the tests."""


TUTORIALS = [("denoise.md", "denoised", (64, 64)), ("unmix.md", "abundances", (40, 40, 8))]
"""Tutorials whose Python runs, with the name and shape of a result."""


def test_the_examples_of_getting_started_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / "start.md").read_text(), re.DOTALL):
        exec(block, names)
    assert names["patches"].shape == (2025, 5120)
    assert (tmp_path / "codes.npy").exists()
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(("page", "result", "shape"), TUTORIALS)
def test_the_examples_of_a_tutorial_run(page, result, shape):
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL):
        exec(block, names)
    assert names[result].shape == shape
    assert np.isfinite(names[result]).all()


def test_the_examples_of_figures_and_reports_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")  # of other tests
    X = np.random.default_rng(0).random((100, 64))
    model = somf.DictionaryLearning(5, random_state=0).fit(X, validation=0.2)
    text = (DOCS / "pictures.md").read_text()
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {"model": model, "X": X})
    assert len(plt.get_fignums()) == text.count("\nplot_")
    assert all(ax.has_data() for n in plt.get_fignums() for ax in plt.figure(n).axes)
    plt.close("all")
    assert "somf fit --config scene.somf.toml" in (tmp_path / "report.html").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.stem)
def test_fractions_have_braces(page):
    # Without them the converter to MathML takes both digits for the numerator.
    assert not re.search(r"\\t?frac\d", page.read_text())


def test_there_is_a_test_behind_every_promise():
    page = (DOCS / "promises.md").read_text(encoding="utf-8")
    promises, _, _ = page.partition("## The last long run")
    lines = (line for line in promises.splitlines() if line.startswith("| "))
    promises = [line for line in lines if line != "| promise | test |"]
    assert promises
    for line in promises:
        tests = re.findall(r"`(\S+\.py)(?:::(test_\w+))?`", line.rpartition(" | ")[2])
        assert tests, line
        for path, name in tests:
            assert f"def {name or 'test_'}" in (TESTS / path).read_text(encoding="utf-8"), line


def test_every_public_name_is_in_the_reference():
    described = re.findall(
        r"^(?:   |\.\. (?:autofunction|autoclass|py:data):: )(somf[\w.]+)$",
        (DOCS / "api.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    names = {name.rpartition(".")[2] for name in described}
    modules = (somf, callbacks, data, plotting, report)
    assert set().union(*(module.__all__ for module in modules)) <= names


def test_the_reference_names_the_built_in_error_of_every_error():
    table = re.findall(
        r"^\| (`\w*Error`.*?) \| (.*?) \|$", (DOCS / "api.md").read_text(), re.MULTILINE
    )
    documented = {
        error: set(re.findall(r"`(\w+)`", built_in))
        for row, built_in in table
        for error in re.findall(r"`(\w+)`", row)
    }
    too_general = {object, BaseException, Exception, OSError}
    expected = {}
    for name, error in vars(errors).items():
        if name.endswith("Error") and error is not errors.SomfError:
            kinds = {kind for kind in error.__mro__ if kind.__module__ == "builtins"}
            expected[name] = {kind.__name__ for kind in kinds - too_general}
    assert documented == expected


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    for module in ("sphinx", "myst_parser", "furo", "numpydoc"):
        pytest.importorskip(module, reason="the site is built with the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
    run = subprocess.run(
        [*command, DOCS, folder], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert run.returncode == 0, run.stderr
    return folder


def test_every_page_is_on_the_site_and_in_its_navigation(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert (site / f"{page.stem}.html").exists()
        assert page.stem == "index" or f'href="{page.stem}.html"' in index


@pytest.mark.parametrize("kind", [somf.MatrixFactorization, somf.NMF])
def test_the_page_of_an_estimator_has_all_of_its_methods(site, kind):
    from_scikit_learn = {"get_params", "set_params", "set_output", "get_metadata_routing"}
    public = {
        name
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_") and not re.fullmatch(r"set_\w+_request", name)
    }
    page = (site / "api" / f"somf.{kind.__name__}.html").read_text(encoding="utf-8")
    described = set(re.findall(rf'id="somf.{kind.__name__}.(\w+)"', page))
    assert public - from_scikit_learn <= described
    assert not from_scikit_learn & described


def test_the_site_loads_nothing_from_the_network(site):
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]*)"', text)
        fetched += re.findall(r'<link[^>]*\shref="([^"]*)"', text)
        assert fetched
        assert [address for address in fetched if re.match(r"(https?:)?//", address)] == []
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", sheet.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@needs_browser
def test_pages_load_nothing_from_the_network_and_are_not_wider_than_a_phone(site, browser):
    browser.resize(390, 800)
    for page in DOCS.glob("*.md"):
        browser.open(site / f"{page.stem}.html")
        assert browser.ask("document.documentElement.scrollWidth") <= 390, page.stem
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.problems == []


@needs_browser
def test_a_window_of_1400_pixels_shows_lines_of_code_whole(site, browser):
    browser.resize(1400, 900)
    for page in DOCS.glob("*.md"):
        browser.open(site / f"{page.stem}.html")
        cut_off = browser.ask(
            "(() => { document.querySelectorAll('details').forEach((e) => { e.open = true; });"
            "return [...document.querySelectorAll('pre')].filter((e) => e.scrollWidth > "
            "e.clientWidth + 1).map((e) => e.textContent); })()"
        )
        assert cut_off == [], page.stem


@needs_browser
def test_a_browser_draws_formulas_without_a_library(site, browser):
    browser.open(site / "algorithm.html")
    sizes = browser.ask(
        "[...document.querySelectorAll('math mfrac')].map(e => e.getBoundingClientRect().height)"
    )
    line = browser.ask("parseFloat(getComputedStyle(document.querySelector('article p')).fontSize)")
    assert len(sizes) >= 4
    assert min(sizes) > line  # numerator above denominator, not in a row
