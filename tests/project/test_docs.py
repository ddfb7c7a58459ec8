"""The pages of docs/: what they show works, what is public is described, and they make a site."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import somf
from somf import plotting
from tests.helpers.browser import Browser, needs_browser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def test_the_examples_for_beginners_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / "start.md").read_text(), re.DOTALL):
        exec(block, names)
    assert names["patches"].shape == (2025, 5120)
    assert (tmp_path / "codes.npy").exists()
    assert (tmp_path / "report.html").exists()


def test_the_pictures_and_the_report_of_the_docs_are_drawn(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")  # other tests draw, too
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


def test_everything_public_is_in_the_reference():
    described = re.findall(
        r"auto(?:class|function|method):: ([\w.]+)", (DOCS / "api.md").read_text()
    )
    names = {name.rpartition(".")[2] for name in described}
    drawing = {name for name in vars(plotting) if name.startswith("plot_")}
    methods = {
        "fit", "partial_fit", "fit_transform", "transform", "inverse_transform", "score",
        "objective", "stationarity_gap", "save", "get_feature_names_out",
    }  # fmt: skip
    assert {*somf.__all__, *drawing, *methods, "open_source", "write_report"} <= names


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


def test_the_site_needs_no_network(site):
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
def test_a_browser_fetches_nothing_and_no_page_is_wider_than_a_phone(site, browser):
    browser.resize(390, 800)
    for page in DOCS.glob("*.md"):
        browser.open(site / f"{page.stem}.html")
        assert browser.ask("document.documentElement.scrollWidth") <= 390, page.stem
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []
    assert browser.problems == []


@needs_browser
def test_a_browser_draws_formulas_by_itself(site, browser):
    browser.open(site / "algorithm.html")
    sizes = browser.ask(
        "[...document.querySelectorAll('math mfrac')].map(e => e.getBoundingClientRect().height)"
    )
    line = browser.ask("parseFloat(getComputedStyle(document.querySelector('article p')).fontSize)")
    assert len(sizes) >= 4
    assert min(sizes) > line  # one above the other, not in a row
