"""Progress bars leave one line behind, on terminals and in notebooks. Logs are off by default."""

import os
import signal
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from somf import DictionaryLearning
from somf.callbacks import Progress, progress_bar
from tests.helpers.processes import run_forks


class Notebook:
    """Stands in for IPython in a kernel of Jupyter: outputs can be made, and replaced."""

    def __init__(self):
        self.outputs, self.n_updates = [], 0

    def display(self, output, *, raw, display_id):
        assert raw
        assert display_id
        self.outputs.append(output)
        place = len(self.outputs) - 1

        def update(output, *, raw):
            assert raw
            self.outputs[place] = output
            self.n_updates += 1

        return SimpleNamespace(update=update)


@pytest.fixture
def notebook(monkeypatch):
    notebook = Notebook()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.display = notebook.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return notebook


def test_in_a_notebook_a_fit_has_one_output_and_leaves_no_bar_behind(toy, notebook, capsys):
    DictionaryLearning(4, n_epochs=1, verbose=1, random_state=0).fit(toy, validation=toy)
    (output,) = notebook.outputs
    assert output["text/plain"].startswith("300/300 samples, ")
    assert "objective" in output["text/plain"]
    assert "<progress" not in output["text/html"]
    assert capsys.readouterr() == ("", "")


def test_in_a_notebook_a_bar_is_shown_while_it_lasts_and_not_redrawn_at_every_step(notebook):
    with progress_bar() as show:
        for n in range(1000):
            show(Progress(n_samples_seen=n, n_samples_planned=1000, n_unused=2))
        assert "<progress" in notebook.outputs[0]["text/html"]
        assert 1 <= notebook.n_updates < 100
    assert notebook.outputs[0]["text/plain"].startswith("999/1000 samples")
    assert notebook.outputs[0]["text/plain"].endswith("2 unused atoms")


def test_in_a_notebook_a_bar_says_how_much_time_is_left_until_it_is_over(notebook):
    with progress_bar() as show:
        assert "left" not in notebook.outputs[0]["text/plain"]  # unknown before the first sample
        show(Progress(n_samples_seen=200, n_samples_planned=1000, compute_seconds=20.0))
        assert "10/s, 0:01:20 left" in notebook.outputs[0]["text/plain"]
    assert "left" not in notebook.outputs[0]["text/plain"]


def test_in_a_notebook_a_fit_that_fails_leaves_no_bar_behind(toy, notebook):
    def fail(progress):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        DictionaryLearning(4, verbose=1, callbacks=[fail]).fit(toy)
    (output,) = notebook.outputs
    assert output["text/html"] == output["text/plain"]


def test_on_a_terminal_a_bar_is_one_line_with_rate_objective_and_unused_atoms(capsys):
    pytest.importorskip("rich", reason="the progress bar needs somf[progress]")
    with progress_bar() as show:
        for n in (50, 100):
            show(
                Progress(
                    n_samples_seen=n,
                    n_samples_planned=100,
                    compute_seconds=n / 10,
                    history={"objective": [0.25]},
                    n_unused=3,
                )
            )
    out, errors = capsys.readouterr()
    assert out == ""
    (line,) = errors.splitlines()
    for part in ("100/100 samples", "10/s", "objective 0.25", "3 unused"):
        assert part in line


FIT = """
import numpy as np
import somf
X = np.random.default_rng(0).standard_normal((200, 10))
"""


def test_nothing_is_logged_to_the_terminal_unless_logging_is_configured():
    program = f"""
import logging, sys
if "logging" in sys.argv:
    logging.basicConfig(level=logging.INFO)
{FIT}somf.DictionaryLearning(4).fit(X)
"""
    silent, logging = run_forks(program, [[], ["logging"]], ["sklearn.base", "numba"])
    assert silent.returncode == 0
    assert silent.stderr == ""
    assert "200 samples" in logging.stderr


INTERRUPTED_FIT = f"""
{FIT}
def tell(progress):
    if progress.n_iter == 5:
        print("going", flush=True)

somf.DictionaryLearning(4, n_epochs=10**6, checkpoint="going", callbacks=tell).fit(X)
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_ctrl_c_logs_how_to_resume_by_default(tmp_path):
    process = subprocess.Popen(
        # Shells let jobs in the background ignore Ctrl-C, which processes would inherit.
        [
            sys.executable,
            "-c",
            f"import signal; signal.signal(2, signal.default_int_handler){INTERRUPTED_FIT}",
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "going\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert errors.startswith("Interrupted. The checkpoint is ")
    assert "the same call of fit resumes from it" in errors
    assert "KeyboardInterrupt" in errors
