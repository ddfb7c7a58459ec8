"""The command as a process, with an exit code, signals and a terminal."""

import json
import os
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import somf
from somf.data import as_source
from tests.helpers.command_files import DATASETS, write_data, write_image, write_rows
from tests.helpers.processes import FITTING, run_forks, run_python

ENVIRONMENT = os.environ | {"MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
"""The environment of the processes."""

PICTURES = ("matplotlib.pyplot", "matplotlib.backends.backend_agg")
"""Modules that commands which draw import."""

TIMEOUT = 120
"""Seconds after which a process is taken to hang."""


@pytest.fixture(autouse=True)
def _in_a_folder_with_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_data()


def start(line, **environment):
    """Start a command."""
    return subprocess.Popen(
        [sys.executable, "-m", "somf", *shlex.split(line)],
        env=ENVIRONMENT | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def run(*lines, modules=(), **environment):
    """Run commands one after the other, each in a process; return their stdout."""
    codes = dict.fromkeys(lines, 0)
    return [said[0] for said in run_with_codes(codes, modules, **environment)]


def run_with_codes(codes, modules=(), **environment):
    """Run commands, from lines to expected codes; return a stdout and a stderr for each."""
    done = run_forks(
        "from somf.cli import main; main()",
        [shlex.split(line) for line in codes],
        ["somf.cli.app", *FITTING, *modules],  # most of a command's time is that of these imports
        env=ENVIRONMENT | environment,
        timeout=TIMEOUT,
    )
    for process, code in zip(done, codes.values(), strict=True):
        assert process.returncode == code, process.stderr
        assert "Traceback" not in process.stderr
    return [(process.stdout, process.stderr) for process in done]


def start_on_terminal(line):
    """Start a command whose stderr is a terminal; return also the terminal, to read from."""
    pty = pytest.importorskip("pty", reason="there are no such terminals")
    terminal, stderr = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "somf", *shlex.split(line)],
        env=ENVIRONMENT | {"TERM": "xterm", "COLUMNS": "120"},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
    )
    os.close(stderr)
    return process, terminal


def everything_from(terminal):
    """Read from a terminal until the process closes it."""
    said = b""
    while True:
        try:
            said += os.read(terminal, 2**16)
        except OSError:  # the other end is closed
            os.close(terminal)
            return said.decode()


def end(process, code=0):
    """Wait for a command to end; return its stdout and stderr."""
    try:
        out, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()  # closes its pipes
        raise
    assert process.returncode == code, errors
    assert "Traceback" not in (errors or "")
    return out, errors


def test_every_command_works_and_what_one_process_writes_another_reads():
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    pytest.importorskip("tensorly", reason="the scene comes with the extra 'demo'")
    bench, *_, score, info = run(
        "bench --components 4 --json",
        "fit scene.npy --patches 5x5 --components 8 --density 0.2 --validation 0.1 --epochs 2"
        " -o scene.somf",
        "transform scene.somf scene.npy -o codes.npy",
        "fit --config scene.somf.toml -o two.somf",
        "plot scene.somf -o atoms.png",
        "report scene.somf scene.npy -o report.html",
        "demo --patches 2x2 --components 4 --quiet -o demo",
        "score scene.somf scene.npy --gap --json",
        "info scene.somf --json",
        modules=PICTURES,
    )
    score, info = json.loads(score), json.loads(info)
    assert len(json.loads(bench)["rows"]) == 3
    model, again = somf.load("scene.somf"), somf.load("two.somf")
    np.testing.assert_array_equal(again.components_, model.components_)
    assert again.history_["objective"] == model.history_["objective"]
    assert again.alpha_ == model.alpha_ == info["alpha"]
    patches = somf.ImagePatches("scene.npy", 5)
    np.testing.assert_array_equal(np.load("codes.npy"), model.transform(patches))
    assert score["objective"] == pytest.approx(model.objective(patches))
    assert score["stationarity_gap"] == pytest.approx(model.stationarity_gap(patches))
    assert {"atoms.png", "report.html", "demo"} <= set(os.listdir())


def test_files_of_every_kind_are_learned_by_processes():
    """Only kinds that no other test of processes has."""
    data, sources = {}, {}
    for kind in ("npz", "raw", "pattern", "hdf5", "zarr"):
        data[kind], sources[kind] = write_rows(kind), "rows.npy"
    for kind in ("mat", "tif", "hdr", "h5", "png"):
        name, dataset = write_image(kind), DATASETS.get(kind)
        named = "" if dataset is None else f"--dataset {dataset}"
        data[kind] = f"{name} --patches 4 --stride 3 {named}"
        sources[kind] = somf.ImagePatches(name, 4, stride=3, dataset=dataset)
    run(*(f"fit {file} --components 6 --epochs 1 -o {kind}.somf" for kind, file in data.items()))
    for kind, source in sources.items():
        model = somf.load(f"{kind}.somf")
        assert model.objective(source) < 0.9 / 2, kind  # samples are of unit norm
        assert model.n_samples_seen_ == as_source(source).shape[0]


def test_without_docstrings_every_command_works():
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    run(
        "fit scene.npy --patches 5 --components 8 --epochs 1 --quiet -o scene.somf",
        "plot scene.somf -o atoms.png",
        "report scene.somf scene.npy -o report.html",
        "transform --help",
        modules=PICTURES,
        PYTHONOPTIMIZE="2",
    )


def test_a_progress_bar_is_on_stderr_and_stdout_is_the_result_alone():
    somf.DictionaryLearning(6, random_state=0).fit("rows.npy").save("rows.somf")
    lines = (
        "fit rows.npy --components 6 --epochs 1 --json -o more.somf",
        "score rows.somf rows.npy --gap --json",
    )
    for process, terminal in [start_on_terminal(line) for line in lines]:
        assert "300/300 samples" in everything_from(terminal)
        assert json.loads(end(process)[0])["atoms"] == 6
    process, terminal = start_on_terminal("score rows.somf rows.npy --quiet")
    assert everything_from(terminal) == ""
    assert end(process)[0] == ""


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_how_to_resume_is_printed_beside_a_progress_bar():
    process, terminal = start_on_terminal(f"{LONG} --checkpoint rows.checkpoint")
    said = ""
    while "/s" not in said:  # the rate, which a bar has only after the first samples
        said += os.read(terminal, 2**16).decode()
    assert "searching alpha on 300 samples" in said
    process.send_signal(signal.SIGINT)
    said = everything_from(terminal)
    end(process, 130)
    assert "the same call of fit resumes" in " ".join(said.split())


def test_scripts_see_exit_codes_and_one_line_on_stderr():
    lines = {
        "fit rows.npy --components none -o rows.somf": (2, "'none' is not a valid integer"),
        "fit missing.npy -o rows.somf": (1, "There is no file 'missing.npy'"),
        "fit rows.npy -o scene.npy": (1, "'scene.npy' exists. Add --force"),
        "info broken.somf": (1, "'broken.somf' is not a somf file"),
    }
    with open("broken.somf", "wb") as file:
        file.write(b"broken")
    codes = {line: code for line, (code, _) in lines.items()}
    for (out, errors), (_, message) in zip(run_with_codes(codes), lines.values(), strict=True):
        assert out == ""
        assert message in errors


LONG = "fit rows.npy --components 8 --epochs 400 --density 0.2 --seed 1 -o rows.somf"
"""A run of some seconds."""


def wait_for_line(process, start):
    """Wait until a command prints a line to stderr."""
    for line in process.stderr:
        if line.startswith(start):
            return
    pytest.fail(f"it ended without a line {start!r}")


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_a_run_that_ctrl_c_stopped_resumes_when_it_is_called_again():
    process = start(f"{LONG} --checkpoint rows.checkpoint")
    wait_for_line(process, "300 samples")
    process.send_signal(signal.SIGINT)
    _, errors = end(process, 130)
    assert "the same call of fit resumes" in errors
    assert errors.count("Interrupted") == 1
    assert not os.path.exists("rows.somf")
    n_seen = somf.load("rows.checkpoint").n_samples_seen_
    assert n_seen < 400 * 300
    _, errors = end(start(f"{LONG} --checkpoint rows.checkpoint"))
    assert f"resuming after {n_seen} samples" in errors
    model = somf.load("rows.somf")
    whole = somf.DictionaryLearning(**model.get_params() | {"checkpoint": None})
    whole.fit("rows.npy")
    np.testing.assert_array_equal(model.components_, whole.components_)
    assert model.alpha_ == whole.alpha_


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_without_a_checkpoint_ends_at_once_and_leaves_nothing(signum, code):
    before = sorted(os.listdir())
    process = start(LONG.replace("400", "100000"))
    wait_for_line(process, "alpha is")
    process.send_signal(signum)
    end(process, code)
    assert sorted(os.listdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals")
def test_codes_that_ctrl_c_breaks_off_leave_nothing():
    somf.DictionaryLearning(200, random_state=0).fit("rows.npy").save("rows.somf")
    np.save("many.npy", np.tile(np.load("rows.npy"), (3000, 1)))
    before = sorted(os.listdir())
    process, terminal = start_on_terminal("transform rows.somf many.npy -o codes.npy")
    said = ""
    while "/s" not in said:  # the rate, which the progress bar shows after the first chunk
        said += os.read(terminal, 2**16).decode()
    assert sorted(os.listdir()) != before
    process.send_signal(signal.SIGINT)
    everything_from(terminal)
    end(process, 130)
    assert sorted(os.listdir()) == before


def test_without_click_the_command_names_the_extra():
    program = "import sys; sys.modules['click'] = None; from somf.cli import main; main()"
    done = run_python(program, check=False)
    assert done.returncode == 1
    assert done.stderr == (
        "The somf command needs click, which is not installed: pip install 'somf[cli]'.\n"
    )


def test_a_device_that_is_not_there_is_one_line():
    command = start(
        "fit rows.npy --device cuda -o a.somf", TRITON_INTERPRET="0", CUDA_VISIBLE_DEVICES=""
    )
    _, errors = command.communicate(timeout=TIMEOUT)
    assert command.returncode == 1
    assert errors.startswith("Error: --device cuda needs ")
    assert len(errors.splitlines()) == 1
