"""Ctrl-C during a fit without a checkpoint keeps what was learned, if somebody wants it."""

import os
import signal

import pytest

import somf
from somf.cli import fit as command
from somf.cli.interruption import Interruption
from somf.errors import MissingLibraryError

FIT = "fit rows.npy --components 5 --batch-size 10 --seed 0 -o rows.somf"


@pytest.fixture
def pressed(monkeypatch):
    """Return a function that presses Ctrl-C after some iterations."""

    def press(*iterations):
        before = Interruption.__call__

        def call(self, progress):
            answer = before(self, progress)
            if progress.n_iter in iterations:
                signal.raise_signal(signal.SIGINT)
            return answer

        monkeypatch.setattr(Interruption, "__call__", call)

    return press


def test_ctrl_c_writes_the_model_that_was_learned_until_then(somf_command, pressed):
    handler = signal.getsignal(signal.SIGINT)
    pressed(3)
    output = somf_command(f"{FIT} --partial", code=130)
    assert "partial model" in output
    assert "Press Ctrl-C again" in somf_command.errors
    model = somf.load("rows.somf")
    assert model.n_iter_ == 4
    assert model.history_["n_iter"][-1] == 4
    assert not os.path.exists("rows.somf.toml")  # it would not repeat the run
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_second_ctrl_c_ends_the_command_without_a_model(somf_command, pressed):
    pressed(3, 4)
    somf_command(f"{FIT} --partial", code=130)
    assert not os.path.exists("rows.somf")


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_the_command_asks(somf_command, pressed, monkeypatch, answer):
    pressed(3)
    asked = []
    monkeypatch.setattr(command, "may_ask", lambda: True)
    monkeypatch.setattr(
        command, "wants_partial_model", lambda *about: asked.append(about) or answer
    )
    somf_command(FIT, code=130)
    assert asked == [("rows.somf", 40)]
    assert os.path.exists("rows.somf") is answer


def test_a_run_that_is_not_interrupted_does_not_depend_on_the_option(somf_command):
    somf_command(f"{FIT} --epochs 1 --partial --quiet")
    somf_command(f"{FIT.replace('rows.somf', 'plain.somf')} --epochs 1 --quiet")
    one, other = somf.load("rows.somf"), somf.load("plain.somf")
    assert (one.components_ == other.components_).all()
    with open("rows.somf.toml", encoding="utf-8") as file:
        assert "partial" not in file.read()


ERRORS = [ImportError("initialization failed"), MissingLibraryError("A GPU", "torch", "cuda")]


@pytest.mark.parametrize("error", ERRORS)
def test_ctrl_c_during_an_import_is_not_an_error_of_the_import(somf_command, monkeypatch, error):
    def swallow(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("somf.cli.info.recognise", swallow)
    somf_command("info rows.npy", code=130)
    assert somf_command.errors == ""


def test_an_error_of_an_import_without_ctrl_c_is_shown(somf_command, monkeypatch):
    def fail(*_):
        raise MissingLibraryError("A GPU", "torch", "cuda")

    monkeypatch.setattr("somf.cli.info.recognise", fail)
    somf_command("info rows.npy", code=1)
    assert "torch" in somf_command.errors
