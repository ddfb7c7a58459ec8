"""A program that starts fits, kills them and resumes them: run by test_killing.py.

It forks itself, so that a fit that is to be killed starts in a millisecond, with all kernels
compiled. It prints its results as JSON.
"""

import json
import os
import random
import signal
import sys
import traceback
from pathlib import Path

import numpy as np

import somf
from somf.persistence import tensorfile
from tests.helpers.problems import planted

X = planted(300, 60, 10)[0].astype(np.float32)

MOST_ITERATIONS = 24
"""A fit that is to be killed does fewer iterations than this; a whole fit has 112."""


def fit(checkpoint=None, callback=None):
    model = somf.DictionaryLearning(
        10,
        reduction=3,
        batch_size=20,
        n_epochs=8,
        record_every=100,
        callbacks=callback or (),
        checkpoint=checkpoint,
        n_threads=1,
        random_state=0,
    )
    return model.fit(X, validation=0.1)


def every_step(path):
    return somf.Checkpoint(path, every_samples=1)


def in_a_child(work, *args):
    """Start some work in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        try:
            work(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return pid


def equals(model, expected):
    arrays, others = model._state.arrays(), expected._state.arrays()
    return bool(
        model.components_.tobytes() == expected.components_.tobytes()
        and all(arrays[name].tobytes() == others[name].tobytes() for name in others)
        and model.history_["objective"] == expected.history_["objective"]
    )


def at_random(folder):
    """Kill during random iterations, at least twenty times in a row, then let the fit end.

    The child writes a byte to a pipe after every iteration, and the parent kills it after a random
    number of bytes. Where in the next iteration, or in which checkpoint, that hits the child is up
    to the scheduler.
    """
    expected = fit()
    path = folder / "c"
    rng = random.Random(0)
    kills, states = 0, set()
    while kills < 20 or len(states) < 3:
        reader, writer = os.pipe()
        pid = in_a_child(fit, every_step(path), lambda _, pipe=writer: write_byte(pipe))
        os.close(writer)
        for _ in range(rng.randrange(MOST_ITERATIONS)):
            if not os.read(reader, 1):  # the child has ended
                break
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        os.close(reader)
        if os.WIFEXITED(status):  # it was too fast: once more from the beginning
            if os.WEXITSTATUS(status) != 0 or not equals(fit(path), expected):
                return {"status": status, "same": False}
            path = folder / f"c{kills}"
        else:
            kills += 1
            for each in (path, Path(f"{path}.previous")):
                if each.exists():
                    states.add(somf.load(each).n_iter_)
    same = equals(fit(path), expected)
    return {"n_iter": sorted(states), "same": same, "files": listing(path)}


def write_byte(pipe):
    """Tell the parent that an iteration is done; as a callback, do not end the fit."""
    os.write(pipe, b".")


def listing(path):
    return sorted(
        each.name.removeprefix(path.name)
        for each in path.parent.iterdir()
        if each.name == path.name or each.name.startswith(f"{path.name}.")
    )


def while_writing(folder):
    """Kill before every system call of a checkpoint, and in the middle of its content."""
    expected = fit()
    results = {}
    for what in ("content", "open", "fsync", "link", "replace"):
        for nth in (1, 2, 3, 4, 7):
            path = folder / f"{what}{nth}"
            _, status = os.waitpid(in_a_child(fit_until_killed, path, what, nth), 0)
            killed = os.WIFSIGNALED(status)
            left = listing(path)
            same = equals(fit(path), expected)
            results[path.name] = {
                "killed": killed,
                "left": left,
                "same": same,
                "files": listing(path),
            }
    return results


def fit_until_killed(path, what, nth):
    kill_at(what, nth)
    fit(every_step(path))


def kill_at(what, nth):
    """Let this process die at the n-th call of something."""
    left = [nth]
    where, name = (tensorfile, "_pieces") if what == "content" else (os, what)
    original = getattr(where, name)

    def die():
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def replaced(*args):
        die()
        return original(*args)

    def pieces(tensor):
        for piece in original(tensor):
            half = len(piece) // 2
            yield piece[:half]
            die()
            yield piece[half:]

    setattr(where, name, pieces if what == "content" else replaced)


if __name__ == "__main__":
    program = {"at_random": at_random, "while_writing": while_writing}[sys.argv[1]]
    print(json.dumps(program(Path(sys.argv[2]))))
