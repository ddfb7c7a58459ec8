"""TOML files with the options of a run."""

import html
import os
import threading
import tomllib

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf


def test_the_file_of_a_run_stores_how_patches_were_cut(somf_command):
    somf_command("fit scene.npy --patches 4 --components 6 -o scene.somf")
    with open("scene.somf.toml", "rb") as file:
        told = tomllib.load(file)
    assert (told["stride"], told["center"], told["scale"]) == ("1x1", True, True)


def test_the_command_line_overrides_the_file(somf_command):
    with open("run.toml", "w") as file:
        file.write('data = ["rows.npy"]\ncomponents = 5\nalpha = 0.3\npositive-code = true\n')
    somf_command("fit --config run.toml --components 4 -o rows.somf")
    model = somf.load("rows.somf")
    assert (model.n_components, model.alpha, model.positive_code) == (4, 0.3, True)
    somf_command("fit --config run.toml --density 0.1 -o sparse.somf")
    assert somf.load("sparse.somf").alpha == "auto"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("components = 2.5", "components must be an integer, got 2.5"),
        ("components = [5]", "components must be an integer, got [5]"),
        ("components = true", "components must be an integer, got True"),
        ("components = '5'", "components must be an integer, got '5'"),
        ("alpha = true", "alpha must be a number or a text, got True"),
        ("alpha = 'some'", "'some' is not a number or 'auto'"),
        ("code-tol = '1e-3'", "code-tol must be a number, got '1e-3'"),
        ("positive-code = 1", "positive-code must be true or false, got 1"),
        ("checkpoint = 5", "checkpoint must be a text, got 5"),
        ("hash-data = 1", "hash-data must be true or false, got 1"),
        ("hash-data = true", "--hash-data needs --checkpoint"),
        ("masks = ['blocks']", "masks must be a text, got ['blocks']"),
        ("masks = 'none'", "'none' is not one of 'blocks', 'bernoulli'"),
        ("data = 'rows.npy'", "data must be a list, each a text, got 'rows.npy'"),
        ("data = ['rows.npy', 5]", "data must be a list, each a text"),
        ("validation = 2", "It must be a fraction strictly between 0 and 1"),
        ("seed = {a = 1}", "seed must be an integer, got {'a': 1}"),
        ("alpha = 0.1\ndensity = 0.1", "--alpha and --density exclude each other"),
        ("n_components = 5", "is not an option of fit. Did you mean 'components'?"),
        ("compnents = 5", "is not an option of fit. Did you mean 'components'?"),
        ("patch_size = 5", "'patch_size', which is not an option of fit"),
        ("components = ", "is not TOML"),
        ("force = true", "'force', which is not an option of fit"),
    ],
)
def test_a_malformed_file_is_wrong_usage(somf_command, text, message):
    with open("run.toml", "w") as file:
        file.write(text)
    somf_command("fit rows.npy --config run.toml -o rows.somf", code=2)
    assert message in " ".join(somf_command.errors.split())


@pytest.mark.parametrize(
    "options",
    [
        "rows.npy --components 6 --epochs 2 --validation 0.1 --surrogate incremental",
        "rows.npy --components 6 --density 0.2 --seed 5 --checkpoint rows.checkpoint",
        "rows.npy --components 6 --problem nmf --alpha 0.05",
        "rows.npy --components 6 --init atoms.npy",
        "scene.npy --patches 4x6 --stride 2 --components 6 --no-scale --dtype float64",
        "holes.npy --patches 4x6 --no-data nan --components 6",
        "holes.npy --patches 4x6 --mask mask.npy --components 6 --validation scene.npy",
    ],
)
def test_the_file_of_a_run_repeats_it_bit_for_bit(somf_command, options):
    image = np.load("scene.npy")
    image[:10, :10] = np.nan
    np.save("holes.npy", image)
    np.save("mask.npy", ~np.isnan(image).any(axis=2))
    np.save("atoms.npy", np.load("rows.npy")[5:11])
    somf_command(f"fit {options} -o one.somf")
    somf_command("fit --config one.somf.toml -o two.somf")
    one, two = somf.load("one.somf"), somf.load("two.somf")
    np.testing.assert_array_equal(one.components_, two.components_)
    assert one.history_.get("objective") == two.history_.get("objective")
    assert (one.alpha_, one.n_iter_) == (two.alpha_, two.n_iter_)
    told = []
    for name in ("one.somf", "two.somf"):
        with open(f"{name}.toml", "rb") as file:
            told.append(tomllib.load(file) | {"output": None})
    np.testing.assert_equal(*told)  # to which NaN is equal to itself


def test_the_command_to_repeat_a_run_can_be_pasted_into_a_shell(somf_command):
    somf_command('fit rows.npy --components 6 -o "o\'ne.so mf"')
    somf_command('report "o\'ne.so mf" rows.npy -o report.html')
    with open("report.html", encoding="utf-8") as file:
        page = html.unescape(file.read())
    with open("o'ne.so mf.toml", encoding="utf-8") as file:
        told = file.read()
    command = next(line[2:].strip() for line in told.splitlines() if "--config" in line)
    assert command in page
    before = somf.load("o'ne.so mf").components_
    somf_command(command.removeprefix("somf "))
    np.testing.assert_array_equal(somf.load("o'ne.so mf").components_, before)


def test_a_name_with_a_line_break_does_not_end_its_comment(somf_command):
    somf_command("fit rows.npy --components 6 -o 'one\ncomponents = 5'")
    with open("one\ncomponents = 5.toml", "rb") as file:
        assert tomllib.load(file)["components"] == 6


@pytest.mark.parametrize("size", ["inf", "nan", "3.5", "'large'", "[]", "true", "10e400"])
def test_a_batch_size_in_a_file_is_an_integer_or_auto(somf_command, size):
    with open("run.toml", "w") as file:
        file.write(f"data = ['rows.npy']\nbatch-size = {size}\n")
    somf_command("fit --config run.toml --components 4 -o rows.somf", code=2)
    assert "batch" in somf_command.errors


def test_a_file_cannot_start_processes(somf_command):
    with open("run.toml", "w") as file:
        file.write("workers = 100000\n")
    somf_command("fit rows.npy --config run.toml --components 4 -o rows.somf", code=2)
    assert "workers" in somf_command.errors


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no FIFOs")
def test_options_may_come_from_a_pipe_and_one_without_a_writer_is_not_waited_for(somf_command):
    os.mkfifo("pipe")
    somf_command("fit --config pipe -o rows.somf", code=2)
    assert "is a pipe to which no process writes" in somf_command.errors
    reader, writer = os.pipe()

    def write():
        with open(writer, "w") as file:
            file.write('data = ["rows.npy"]\ncomponents = 3\n')

    thread = threading.Thread(target=write)
    thread.start()
    try:
        somf_command(f"fit --config /dev/fd/{reader} -o rows.somf")
    finally:
        thread.join()
        os.close(reader)
    assert somf.load("rows.somf").n_components == 3


def test_a_file_that_is_too_large_for_options_is_not_read(somf_command, monkeypatch):
    monkeypatch.setattr("somf.cli.config_file.MOST_BYTES", 100)
    with open("run.toml", "w") as file:
        file.write("components = 3\n" + "# more\n" * 20)
    somf_command("fit rows.npy --config run.toml -o rows.somf", code=2)
    assert "more than 100 bytes" in somf_command.errors
