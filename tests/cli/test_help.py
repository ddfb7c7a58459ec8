"""Every command has a help text, whose examples work."""

import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import click

from somf.cli.app import application

COMMANDS = (
    "demo",
    "fit",
    "transform",
    "reconstruct",
    "impute",
    "score",
    "info",
    "plot",
    "report",
    "compare",
    "bench",
)


def examples(command):
    lines = (command.epilog or "").splitlines()
    return [line.strip().removeprefix("somf ") for line in lines if line.startswith("  somf ")]


def test_there_is_help_with_an_example_for_every_command(somf_command):
    assert set(application.commands) == set(COMMANDS)
    for name in COMMANDS:
        text = somf_command(f"{name} --help")
        assert any(line in text for line in examples(application.commands[name])), text
    assert "Exit codes" in somf_command("--help")


def test_the_help_of_fit_begins_with_the_options_that_most_people_need(somf_command):
    lines = somf_command("fit --help").splitlines()
    headings = [line for line in lines if line.endswith(":") and not line.startswith(" ")]
    assert headings[:2] == ["Options:", "Data:"]
    first = lines[lines.index("Options:") + 1 : lines.index("Data:")]
    flags = [line.split()[0] for line in first if line.startswith("  -")]
    assert len(flags) == 10
    assert {"--components", "--density", "--patches", "--epochs"} <= set(flags)


def test_help_is_as_wide_as_the_terminal(monkeypatch):
    for columns, widest in ((80, 80), (100, 100), (200, 120)):
        monkeypatch.setenv("COLUMNS", str(columns))
        with application.make_context("somf", ["fit"]) as parent:
            fit = click.Context(application.commands["fit"], parent=parent)
            text, _, _ = fit.get_help().partition("Examples:")
        assert widest - 15 < max(map(len, text.splitlines())) <= widest


def test_help_speaks_of_options_rather_than_of_parameters(somf_command):
    text = somf_command("fit --help")
    assert "See --tol." in text
    assert "code_density" not in text


def test_the_examples_of_the_help_work_one_after_the_other(somf_command):
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    commands = application.commands
    for name in ("fit", "transform", "reconstruct", "score", "info", "plot", "report", "compare"):
        for line in examples(commands[name]):
            somf_command(line)
    for line in examples(application):
        somf_command(line)


def test_the_example_of_the_benchmark_works(somf_command):
    (line,) = examples(application.commands["bench"])
    assert "samples per second" in somf_command(line)


def test_the_example_of_the_demo_works(somf_command, tmp_path):
    pytest.importorskip("tensorly", reason="the scene comes with the extra 'demo'")
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    (line,) = examples(application.commands["demo"])
    output = somf_command(line)
    assert output.count("$ somf fit") == 2
    assert "4 spectra explain 9" in output
    names = {path.name for path in (tmp_path / "demo").iterdir()}
    pictures = {"spectra.png", "maps.png", "atoms.png", "report.html"}
    assert {
        "spectra.somf",
        "spectra.somf.toml",
        "patches.somf",
        "right-again.npy",
    } | pictures <= names


def test_without_tensorly_the_demo_names_the_extra(somf_command, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tensorly.datasets", None)
    somf_command("demo", code=1)
    assert "pip install 'somf[demo]'" in somf_command.errors
