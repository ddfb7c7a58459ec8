"""A report in a real browser: it loads, sorts, enlarges, and can be used without a mouse."""

import re

import numpy as np
import pytest

from somf import DictionaryLearning, ImagePatches
from somf.report import write_report
from tests.helpers.browser import Browser, needs_axe, needs_browser

pytestmark = needs_browser

NUMBERS = "[...document.querySelectorAll('#atom-list li')].map((e) => Number(e.dataset.number))"
SIZES = "[...document.querySelectorAll('#atom-list li')].map((e) => Number(e.dataset.size))"
IS_OPEN = "document.querySelector('dialog').open"
TITLE = "document.querySelector('#enlarged-title').textContent"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).random((60, 4 * 4 * 5)).astype(np.float32)
    return DictionaryLearning(9, alpha=0.5, random_state=0).fit(X, validation=0.2), X


@pytest.fixture
def page(browser, fitted, tmp_path):
    model, X = fitted
    write_report(model, tmp_path / "report.html", data=X, patch_shape=(4, 4, 5))
    browser.problems.clear()
    browser.requests.clear()
    browser.resize(1200, 800)
    browser.open(tmp_path / "report.html")
    yield browser
    assert browser.problems == []


@pytest.fixture
def emulated(browser):
    """Return a function that sets the theme of the system, until the end of the test."""
    yield lambda theme: browser.send(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}]
    )
    browser.send("Emulation.setEmulatedMedia", media="", features=[])


def test_a_page_loads_without_an_error_or_a_request(page):
    assert page.ask("document.querySelectorAll('#atom-list img').length") == 9
    assert page.ask("[...document.images].every((e) => e.complete && e.naturalWidth > 0)")
    assert all(url.startswith(("file:", "data:")) for url in page.requests)


def test_atoms_are_sorted_by_a_click(page, fitted):
    model, X = fitted
    order = model.measure(X).order.tolist()
    assert page.ask(NUMBERS) == order
    page.click("button[data-key=number]")
    assert page.ask(NUMBERS) == list(range(9))
    assert page.ask("document.querySelector('[aria-pressed=true]').dataset.key") == "number"
    page.click("button[data-key=size]")
    sizes = page.ask(SIZES)
    assert sizes == sorted(sizes, reverse=True)
    page.click("button[data-key=place]")
    assert page.ask(NUMBERS) == order


def test_an_atom_is_enlarged_with_its_spectrum_and_closed_again(page):
    page.click("#atom-list li:nth-child(3) button")
    assert page.ask(IS_OPEN)
    assert page.ask(TITLE) == f"Atom {page.ask(NUMBERS)[2]}"
    picture, small = (
        page.ask(f"document.querySelector('{place} img').getBoundingClientRect().width")
        for place in ("#enlarged-picture", "#atom-list")
    )
    assert picture > 2 * small
    assert page.ask("document.querySelectorAll('#enlarged-curve .line').length") == 1
    page.click("#close")
    assert not page.ask(IS_OPEN)


def test_the_slider_shows_the_map_of_another_atom(browser, tmp_path):
    patches = ImagePatches(np.random.default_rng(0).random((12, 15, 4)).astype(np.float32), 3)
    model = DictionaryLearning(5, random_state=0, n_epochs=1).fit(patches)
    write_report(model, tmp_path / "maps.html", data=patches)
    browser.problems.clear()
    browser.open(tmp_path / "maps.html")
    visible = (
        "[...document.querySelectorAll('.code-map')].filter((e) => e.checkVisibility())"
        ".map((e) => Number(e.dataset.number))"
    )
    order = model.measure(patches).order.tolist()
    assert browser.ask(visible) == order[:1]
    browser.ask("document.querySelector('#map-slider').focus()")
    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.ask(visible) == [order[2]]
    said = browser.ask("document.querySelector('#map-slider').getAttribute('aria-valuetext')")
    assert said == f"Atom {order[2]}"
    assert browser.problems == []


@needs_axe
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_a_page_can_be_used_by_everyone(browser, emulated, tmp_path, width, theme):
    patches = ImagePatches(np.random.default_rng(0).random((12, 15, 4)).astype(np.float32), 3)
    model = DictionaryLearning(5, random_state=0, n_epochs=1).fit(patches, validation=0.1)
    write_report(model, tmp_path / "maps.html", data=patches)
    browser.problems.clear()
    browser.resize(width, 900)
    emulated(theme)
    browser.open(tmp_path / "maps.html")
    assert browser.accessibility_violations() == []
    browser.click("#atom-list button")
    assert browser.accessibility_violations() == []
    assert browser.problems == []


def test_everything_can_be_done_from_the_keyboard(page):
    page.ask("document.querySelector('#atom-list button').focus()")
    page.press("Enter")
    assert page.ask(IS_OPEN)
    numbers = page.ask(NUMBERS)
    page.press("ArrowRight")
    assert page.ask(TITLE) == f"Atom {numbers[1]}"
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    assert page.ask(TITLE) == f"Atom {numbers[-1]}"
    page.press("Escape")
    assert not page.ask(IS_OPEN)
    focused = page.ask("document.activeElement.closest('li').dataset.number")
    assert int(focused) == numbers[-1]


@pytest.mark.parametrize("width", [320, 390, 768])
def test_nothing_is_wider_than_a_phone(page, width):
    page.resize(width, 700)
    assert page.ask("document.documentElement.scrollWidth") <= width
    page.click("#atom-list li:nth-child(2) button")
    assert page.ask("document.querySelector('dialog').getBoundingClientRect().right") <= width


def test_the_page_is_dark_if_the_system_is(page):
    color = "getComputedStyle(document.body).backgroundColor"
    light = page.ask(color)
    page.send(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert page.ask(color) != light
    page.send("Emulation.setEmulatedMedia", media="print")
    assert page.ask(color) == "rgb(255, 255, 255)"
    assert page.ask("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.send("Emulation.setEmulatedMedia", media="", features=[])


def test_a_printed_page_has_all_atoms_and_no_buttons(page):
    pdf = page.pdf()
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type /Page\b", pdf)) <= 4
    page.send("Emulation.setEmulatedMedia", media="print")
    page.resize(700, 1000)  # as wide as paper
    assert page.ask("document.documentElement.scrollWidth") <= 700
    is_shown = "document.querySelector('{}').getBoundingClientRect().height > 0"
    for gone in ("nav", ".sorting", "#copy", "footer"):
        assert not page.ask(is_shown.format(gone))
    for shown in ("#atom-list li:nth-child(9) img", ".chart", "#command", "tbody tr:last-child"):
        assert page.ask(is_shown.format(shown))
    page.send("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize("may_use_clipboard", [True, False])
def test_the_command_is_copied_by_a_click(page, may_use_clipboard):
    if may_use_clipboard:
        page.ask("void (navigator.clipboard.writeText = async (text) => { window.copied = text; })")
    else:
        page.ask("void (navigator.clipboard.writeText = async () => { throw new Error(); })")
        page.ask("document.oncopy = () => { window.copied = getSelection().toString(); }; 0")
    page.click("#copy")
    page.ask("new Promise((done) => setTimeout(done))")  # what a click does may be done later
    assert page.ask("document.querySelector('#copy').textContent") == "Copied"
    assert page.ask("window.copied") == page.ask("document.querySelector('#command').textContent")


def test_on_a_phone_short_words_in_the_table_of_parameters_are_not_broken(browser, tmp_path):
    image = np.random.default_rng(0).random((12, 12, 5)).astype(np.float32)
    model = DictionaryLearning(4, random_state=0).fit(ImagePatches(image, 4))
    write_report(model, tmp_path / "patches.html")
    browser.resize(390, 800)
    browser.open(tmp_path / "patches.html")
    lines = browser.ask(
        "[...document.querySelectorAll('#parameters tbody tr')].map((row) => "
        "[...row.cells].map((cell) => { const range = document.createRange();"
        "range.selectNodeContents(cell);"
        "return [cell.textContent, new Set([...range.getClientRects()].map((r) => r.y)).size]; }))"
    )
    assert any("patches: " in name for (name, _), *_ in lines)
    for (_, in_name), (value, in_value), (_, in_remark) in lines:
        assert in_remark <= 1
        assert in_name <= 2
        assert in_value <= 1 or len(value) > 12
    assert browser.ask("document.documentElement.scrollWidth") <= 390


def test_names_of_features_are_shown_as_they_are(browser, tmp_path):
    pandas = pytest.importorskip("pandas")
    name = "<img src=x onerror=document.title=1>"
    frame = pandas.DataFrame(np.random.default_rng(0).random((30, 2)), columns=[name, "b"])
    write_report(DictionaryLearning(2, random_state=0).fit(frame), tmp_path / "named.html")
    browser.problems.clear()
    browser.open(tmp_path / "named.html")
    browser.click("#atom-list button")
    cells = browser.ask("[...document.querySelectorAll('#enlarged td')].map((e) => e.textContent)")
    assert name in cells
    assert browser.ask("document.title") != "1"
    assert browser.problems == []
