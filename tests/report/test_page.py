"""A report says what is known, escapes what comes from files, and stays small."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from somf import NMF, DictionaryLearning, ImagePatches, MatrixFactorization, SparsePCA
from somf.data import Channels
from somf.inference.usage import usage_of
from somf.report import write_report
from somf.report.maps import _grid_of

VOID = {"meta", "link", "img", "input"}
MEGABYTE = 2**20


class Outline(HTMLParser):
    """Checks that elements are nested, and collects what a page consists of."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


def report(tmp_path, model, **options):
    path = tmp_path / "report.html"
    write_report(model, path, **options)
    page = Outline()
    page.feed(path.read_text(encoding="utf-8"))
    assert page.open == []
    return page


def items(page):
    return page.tags.count("li")


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).standard_normal((80, 20)).astype(np.float32)
    model = DictionaryLearning(6, alpha=0.7, reduction=2, batch_size=10, random_state=0)
    return model.fit(X, validation=0.25), X


def test_a_report_states_parameters_measurements_and_the_command(tmp_path, fitted):
    model, X = fitted
    page = report(tmp_path, model, data=X, command="somf fit X.npy --alpha 0.7")
    assert "somf fit X.npy --alpha 0.7" in page.text
    assert f"{model.objective(X):.6g}" in page.text
    assert f"{model.stationarity_gap(X):.3g}" in page.text
    assert f"{np.mean(model.transform(X) != 0):.1%} of the codes are not zero" in page.text
    assert "learning_rate" in page.text
    assert items(page) == 6


def test_the_facts_at_the_top_are_those_of_the_fit_and_of_the_data(tmp_path, fitted):
    model, X = fitted
    report(tmp_path, model, data=X)
    header = (tmp_path / "report.html").read_text(encoding="utf-8").split("<main>")[0]
    found = model.measure(X)
    assert dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", header)) == {
        "explained variance": f"{found.explained_variance:.1%}",
        "samples seen": str(model.n_samples_seen_),
        "iterations": str(model.n_iter_),
        "seconds of learning": f"{model.history_['compute_seconds'][-1]:.3g}",
        "validation objective": f"{model.history_['objective'][-1]:.5g}",
        "objective on data": f"{found.objective:.5g}",
        "code density": f"{found.density:.1%}",
        "atoms unused": str(found.n_unused),
    }


def test_usage_and_order_are_those_of_the_codes(tmp_path, fitted):
    model, X = fitted
    codes = model.transform(X)
    data = report(tmp_path, model, data=X).attributes
    numbers = [int(value) for name, value in data if name == "data-number"]
    usage = [float(value) for name, value in data if name == "data-usage"]
    sizes = [float(value) for name, value in data if name == "data-size"]
    np.testing.assert_allclose(usage, (codes != 0).mean(axis=0)[numbers], rtol=1e-5)
    np.testing.assert_allclose(sizes, np.abs(codes).mean(axis=0)[numbers], rtol=1e-2)
    assert numbers == usage_of(codes).order.tolist()


def test_without_data_and_history_a_report_says_what_is_missing(tmp_path, fitted):
    _, X = fitted
    page = report(tmp_path, DictionaryLearning(3, random_state=0).partial_fit(X))
    assert "was not recorded" in page.text
    assert "No data was given" in page.text
    assert "Sort by" not in page.text
    assert "somf.DictionaryLearning(n_components=3, random_state=0).fit(X)" in page.text


def test_the_line_of_python_that_repeats_a_fit_is_python(tmp_path, fitted):
    _, X = fitted
    model = DictionaryLearning(3, init=X[:3], alpha=np.float32(0.5), random_state=0)
    page = report(tmp_path, model.fit(X, validation=0.25))
    line = next(line for line in page.text.splitlines() if line.startswith("somf."))
    compile(line, "report", "eval")
    assert "init=init" in line
    assert line.endswith(".fit(X, validation=...)")


@pytest.mark.parametrize("kind", [MatrixFactorization, NMF, SparsePCA])
@pytest.mark.parametrize("shape", [None, (4, 5), (2, 2, 5)])
def test_every_estimator_has_a_report_as_pictures_and_as_curves(tmp_path, kind, shape):
    X = np.random.default_rng(0).random((30, 20))
    model = kind(1, reduction=1, random_state=0).fit(X)
    page = report(tmp_path, model, data=X, patch_shape=shape)
    # One atom, and eight samples with their reconstructions and errors.
    assert page.tags.count("img") == (0 if shape is None else 1 + 3 * 8)
    assert items(page) == 1


def test_a_report_has_the_shape_of_patches_and_the_alpha_that_was_found(tmp_path, fitted):
    given, X = fitted
    assert "found" not in report(tmp_path, given).text
    model = DictionaryLearning(3, alpha="auto", random_state=0).fit(X)
    model.patch_shape_, model.alpha_ = (4, 5), 0.125
    model.patches_ = {"stride": (1, 1), "image dtype": "uint16"}
    page = report(tmp_path, model)
    assert "4 × 5 pixels" in page.text
    assert "alpha_0.125found" in page.text
    assert "patches: image dtype" in page.text
    assert page.tags.count("img") == 3


def test_a_report_says_where_model_data_and_page_come_from(tmp_path, fitted):
    model, X = fitted
    np.save(tmp_path / "rows <b>.npy", X)
    page = report(tmp_path, model, data=tmp_path / "rows <b>.npy")
    assert "measured onrows <b>.npy" in page.text
    made = model.provenance_
    for known in (made["date"], made["machine"], f"numpy {made['numpy']}"):
        assert known in page.text
    assert "measured onthe scene" in report(tmp_path, model, data=X, data_name="the scene").text


def test_a_report_without_a_validation_set_has_the_objective_of_minibatches(tmp_path, fitted):
    _, X = fitted
    model = DictionaryLearning(3, batch_size=10, n_epochs=1, random_state=0).fit(X)
    page = report(tmp_path, model)
    first, *_, last = model.history_["training_objective"]
    assert f"From {first:.5g} at the start to {last:.5g}" in page.text
    circles = page.tags.count("circle")
    assert circles == 2 * len(model.history_["n_iter"]) > 8


def test_patches_of_an_image_have_maps_of_codes_and_errors(tmp_path):
    rng = np.random.default_rng(0)
    image, mask = rng.random((9, 12, 4)), rng.random((9, 12)) > 0.02
    patches = ImagePatches(image, 3, mask=mask, center=False)
    model = NMF(5, n_epochs=1, random_state=0).fit(patches)
    page = report(tmp_path, model, data=patches)
    assert ("max", "4") in page.attributes
    numbers = [value for name, value in page.attributes if name == "data-number"]
    order = model.measure(patches).order.astype(str).tolist()
    assert numbers == 2 * order  # the list of atoms, and that of maps
    assert page.attributes.count(("hidden", None)) == 4  # all but the first
    assert "maps" not in report(tmp_path, model, data=patches.rows(np.arange(9))).text.lower()


def test_the_errors_of_an_image_of_small_integers_are_those_of_real_numbers(tmp_path):
    image = np.random.default_rng(0).integers(100, 5000, (9, 10, 6)).astype(np.int16)
    patches = ImagePatches(image, 1, center=False, scale=False)
    model = NMF(3, random_state=0).fit(patches)
    write_report(model, tmp_path / "report.html", data=patches)
    page = (tmp_path / "report.html").read_text()
    rows = patches.rows(np.arange(90)).astype(float)
    missed = rows - model.inverse_transform(model.transform(patches))
    largest = (np.linalg.norm(missed, axis=1) / np.linalg.norm(rows, axis=1)).max()
    shown = re.search(r"Error of the patches.*?from 0 \(dark\) to ([0-9.e+-]+) \(bright\)", page)
    assert float(shown[1]) == pytest.approx(largest, rel=0.01)


def test_a_map_has_the_code_of_each_patch_at_its_place():
    patches = ImagePatches(np.random.default_rng(0).random((400, 12)), (2, 4), stride=(1, 4))
    grid = _grid_of(patches)
    assert (grid.step, grid.shape) == (3, (133, 1))
    values = np.arange(patches.shape[0])
    rows, columns = patches.positions[grid.map_of(values[grid.ids]).astype(int).ravel()].T
    np.testing.assert_array_equal(rows, np.arange(0, 399, 3))
    assert set(columns) == {0}


def test_text_from_a_file_is_never_markup(tmp_path):
    pandas = pytest.importorskip("pandas")
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
    frame = pandas.DataFrame(np.random.default_rng(0).random((30, 2)), columns=[evil, "$style"])
    model = DictionaryLearning(2, random_state=0).fit(frame)
    model.patches_ = {evil: evil}
    page = report(tmp_path, model, data=frame, command=evil)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert all(not name.startswith("on") for name, _ in page.attributes)
    assert evil in page.text


def test_a_page_refers_to_nothing_outside_of_itself(tmp_path, fitted):
    model, X = fitted
    data = dict.fromkeys(("src", "href", "srcset", "action", "data"))
    for name, value in report(tmp_path, model, data=X, patch_shape=(4, 5)).attributes:
        if name in data:
            assert value.startswith(("data:", "#"))
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert not re.search(r"https?:|url\(|@import", text)


def test_a_page_of_1024_atoms_or_more_stays_below_six_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    model = DictionaryLearning(1030, reduction=1, batch_size=10, random_state=0)
    model.init = rng.standard_normal((1030, 40 * 40 * 4)).astype(np.float32)
    model.partial_fit(rng.standard_normal((10, 6400), dtype=np.float32))
    page = report(tmp_path, model, patch_shape=(40, 40, 4))
    assert items(page) == 1024
    assert "the first 1\u202f024 of 1\u202f030" in page.text
    assert (tmp_path / "report.html").stat().st_size < 6 * MEGABYTE
    report(tmp_path, model)
    assert (tmp_path / "report.html").stat().st_size < 6 * MEGABYTE


def test_a_large_picture_is_shrunk_to_means(tmp_path):
    model = DictionaryLearning(1, reduction=1, init=np.ones((1, 300 * 200)))
    model.partial_fit(np.ones((2, 300 * 200)))
    attributes = report(tmp_path, model, patch_shape=(300, 200)).attributes
    assert ("width", "128") in attributes
    assert ("height", "128") in attributes


def test_records_that_are_not_finite_do_not_break_the_page(tmp_path, fitted):
    _, X = fitted
    model = DictionaryLearning(3, random_state=0).fit(X, validation=0.2)
    model.history_["objective"][-1] = np.nan
    assert "not finite" in report(tmp_path, model).text
    del model.history_["compute_seconds"]
    model.history_["objective"][-1] = 1.0
    assert "samples seen" in report(tmp_path, model).text


def test_a_model_that_was_not_fitted_has_no_report(tmp_path):
    with pytest.raises(NotFittedError):
        write_report(DictionaryLearning(), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_an_error_while_writing_keeps_the_old_page(tmp_path, fitted, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_report(fitted[0], path)
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_report_that_fails_leaves_the_old_page_and_nothing_else(tmp_path, fitted):
    model, X = fitted
    path = tmp_path / "report.html"
    write_report(model, path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="features"):
        write_report(model, path, data=X[:, :3])
    with pytest.raises(UnicodeEncodeError):  # in the middle of the page
        write_report(model, path, command="somf fit \udcff")
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_spectra_lie_over_the_wavelengths_that_the_model_knows(tmp_path):
    patches = ImagePatches(np.random.default_rng(0).random((12, 12, 5)), 4)
    patches.channels = Channels((400, 410, 420, 430, 800), "nm")
    model = DictionaryLearning(3, n_epochs=1, random_state=0).fit(patches)
    page = report(tmp_path, model)
    assert ("data-first", "wavelength 400 nm") in page.attributes
    assert ("data-last", "800 nm") in page.attributes
    lines = [value for name, value in page.attributes if name == "d" and value.count("L") == 4]
    assert all(re.findall(r"[ML](\d+) ", line) == ["0", "25", "50", "75", "1000"] for line in lines)
