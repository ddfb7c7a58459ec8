"""An attack on what the library promises: ``make attack``, thirty minutes, not part of CI.

Fits are killed and interrupted at random moments and resumed. Mutants of model files and of TOML
files go through the commands. The program prints what it tried and what went wrong; its exit code
is 1 if anything did. `docs/promises.md` has the counts of the last long run.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

os.environ |= {"OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "Agg"}  # only without threads, fork works

import numpy as np
import tomli_w
from click.testing import CliRunner

import somf
from somf.cli import config_file
from somf.cli.app import application
from somf.persistence import tensorfile
from tests.helpers.killing import equals, every_step, fit, listing

MOST_MEMORY = 8 * 2**30
"""Bytes of address space of a process that reads a mutant."""

SECONDS = 30
"""After so many seconds a command that reads a mutant is ended: it may do what the mutant says."""

PER_ROUND = 25
"""Mutants of one process."""

ODD = (None, True, -1, 0, 3, 2**31, 2**63, 10**400, 5e-324, 1e308, float("nan"), float("inf"), "x")
"""Values for fields of model files."""

ODD_TOML = (
    True, -1, 0, 3, 2**31, 2**62, 5e-324, 1e308, float("nan"), float("inf"), "", "x", "auto",
    "\x1b", "rows.npy", [], [3], ["rows.npy"], {}, {"a": 1},
)  # fmt: skip
"""Values for options in TOML files."""

COMMANDS = (
    "info {model}",
    "info {model} --json",
    "score {model} rows.npy --gap",
    "transform {model} rows.npy -o codes.npy --force",
    "plot {model} -o atoms.png --force",
    "report {model} rows.npy -o report.html --force",
    "fit rows.npy --init {model} --components 4 -o new.somf --force",
    "fit rows.npy --components 4 --seed 0 --checkpoint {model} -o new.somf --force",
)
"""Command lines that read a mutant."""


class BrokenPromiseError(Exception):
    """Something happened that must not happen; the message says what."""


class TooLong(BaseException):
    """A command takes longer than `SECONDS`."""


class Attack:
    """Counts of what was tried, and a folder for it.

    Parameters
    ----------
    folder : Path
    seed : int
    """

    def __init__(self, folder, seed):
        self.folder, self.rng = folder, random.Random(seed)
        self.counts, self.wrong = Counter(), []
        self.expected = fit()
        begin = time.perf_counter()
        fit(every_step(folder / "timed"))
        self.seconds_of_fit = time.perf_counter() - begin

    def kills(self):
        """Kill a fit several times in a row, then let it end."""
        path = self._new_folder() / "checkpoint"
        for _ in range(self.rng.randint(1, 5)):
            before = listing(path)
            pid = _fork(lambda: fit(every_step(path)))
            time.sleep(self.rng.uniform(0, 0.5 * self.seconds_of_fit))
            os.kill(pid, signal.SIGKILL)
            if os.WIFEXITED(os.waitpid(pid, 0)[1]):
                self.counts["kills that came too late"] += 1
                continue
            self.counts["kills"] += 1
            if any(each.endswith(".part") for each in set(listing(path)) - set(before)):
                self.counts["kills while a checkpoint was written"] += 1
        self._resume(path)

    def interrupts(self):
        """Interrupt a fit, perhaps twice, then let it end."""
        path = self._new_folder() / "checkpoint"
        for _ in range(self.rng.randint(1, 3)):
            pid = _fork(lambda: fit(every_step(path)))
            which = self.rng.choice([signal.SIGINT, signal.SIGTERM])
            time.sleep(self.rng.uniform(0, 0.5 * self.seconds_of_fit))
            for pause in self.rng.choice([[0.0], [0.0, self.rng.uniform(0, 0.01)]]):
                time.sleep(pause)
                os.kill(pid, which)
                self.counts["interrupts"] += 1
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            allowed = {signal.SIGINT: (0, 130), signal.SIGTERM: (0, 143, -signal.SIGTERM)}[which]
            if code not in allowed:
                raise BrokenPromiseError(
                    f"a fit that was interrupted by {which.name} ended with {code}"
                )
        self._resume(path)

    def _resume(self, path):
        if not equals(fit(path), self.expected):
            raise BrokenPromiseError(f"the fit resumed from {path} differs from an undisturbed one")
        if unexpected := set(listing(path)) - {"", ".previous", ".lock"}:
            raise BrokenPromiseError(f"a resumed fit leaves {sorted(unexpected)} beside {path}")
        self.counts["fits resumed bit for bit"] += 1
        shutil.rmtree(path.parent)

    def mutants(self):
        """Let commands read mutants of model files, in a process of its own."""
        self._run_commands("mutants of model files", _mutate_model)

    def toml(self):
        """Let commands read odd TOML files, in a process of its own."""
        self._run_commands("odd TOML files", _mutate_toml)

    def _run_commands(self, what, mutate):
        folder, seed = self._new_folder(), self.rng.getrandbits(32)
        pid = _fork(lambda: _read_mutants(folder, random.Random(seed), mutate))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code != 0:
            raise BrokenPromiseError(f"the process that read {what} in {folder} ended with {code}")
        found = json.loads((folder / "result.json").read_text())
        self.counts[what] += PER_ROUND
        for outcome, n in found["outcomes"].items():
            self.counts[f"{what}: {outcome}"] += n
        for each in found["wrong"]:
            raise BrokenPromiseError(f"{each}; see {folder}")
        shutil.rmtree(folder)

    def _new_folder(self):
        return Path(tempfile.mkdtemp(dir=self.folder))


def _fork(work):
    """Do some work in a process of its own; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with open(os.devnull, "w") as sys.stderr:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            work()
        code = 0
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:
        code = end.code
    finally:
        os._exit(code)


def _read_mutants(folder, rng, mutate):
    """Write mutants, let commands read them, and write down how that ended."""
    os.chdir(folder)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.signal(signal.SIGALRM, _end_command)
    _write_originals()
    outcomes, wrong = Counter(), []
    for i in range(PER_ROUND):
        line = mutate(rng, i)
        signal.alarm(SECONDS)
        try:
            done = CliRunner().invoke(application, line.split(), prog_name="somf")
        except TooLong:
            outcomes["ended after a while"] += 1
            continue
        finally:
            signal.alarm(0)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            wrong.append(f"'{line}' ended with {done.exception!r}")
        elif done.exit_code not in (0, 1, 2):
            wrong.append(f"'{line}' ended with exit code {done.exit_code}")
        else:
            outcomes["refused" if done.exit_code else "accepted"] += 1
    result = {"outcomes": outcomes, "wrong": wrong}
    (folder / "result.json").write_text(json.dumps(result))


def _end_command(*_):
    raise TooLong


def _write_originals():
    """Write samples, a model, a model with its state, and a checkpoint."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6)).astype(np.float32)
    np.save("rows.npy", X)
    options = {"n_components": 4, "batch_size": 10, "random_state": 0, "n_epochs": 2}
    model = somf.DictionaryLearning(**options).fit("rows.npy", validation=0.2)
    model.save("model")
    model.save("state", state=True)
    somf.DictionaryLearning(**options, checkpoint="checkpoint").fit("rows.npy", validation=0.2)


def _mutate_model(rng, i):
    """Write a mutant of a model file; return a command line that reads it."""
    original = rng.choice(["model", "state", "checkpoint"])
    path = f"mutant{i}"
    if rng.random() < 0.3:
        Path(path).write_bytes(_mutated_bytes(rng, Path(original).read_bytes()))
    else:
        _write_edited(rng, original, path)
    return rng.choice(COMMANDS).format(model=path)


def _write_edited(rng, original, path):
    """Write a model file with odd fields or odd numbers, and the checksum that it should have."""
    tensors, text = tensorfile.read(original)
    fields = json.loads(text)
    for _ in range(rng.randint(0, 2)):
        container, key = rng.choice(list(_places(fields)))
        container[key] = rng.choice(ODD)
    if rng.random() < 0.5:
        name = rng.choice(sorted(tensors))
        tensor = np.array(tensors[name])
        if tensor.size:
            limits = np.finfo(tensor.dtype) if tensor.dtype.kind == "f" else np.iinfo(tensor.dtype)
            odd = [0, 1, limits.max, limits.min] + [np.nan, np.inf] * (tensor.dtype.kind == "f")
            tensor.flat[rng.randrange(tensor.size)] = rng.choice(odd)
        tensors[name] = rng.choice([tensor, tensor[:-1], tensor.ravel()]) if tensor.ndim else tensor
    tensorfile.write(path, tensors, json.dumps(fields))


def _places(fields):
    """Yield every container inside some fields, with each of its keys."""
    for key, value in fields.items() if isinstance(fields, dict) else enumerate(fields):
        yield fields, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _mutated_bytes(rng, content):
    """Return bytes of which some are overwritten, inserted, removed or repeated."""
    for _ in range(rng.randint(1, 4)):
        at, piece = rng.randrange(len(content) + 1), rng.randbytes(rng.randint(1, 20))
        end = at + len(piece)
        content = rng.choice(
            [
                content[:at] + piece + content[end:],
                content[:at] + piece + content[at:],
                content[:at] + content[end:],
                content[:end] + content[at:],
                content[:at],
            ]
        )
    return content


def _mutate_toml(rng, i):
    """Write an odd TOML file; return a command line that reads it."""
    options = config_file._by_key(application.commands["fit"])
    values = {"data": ["rows.npy"], "components": 4, "seed": 0}
    for _ in range(rng.randint(1, 3)):
        key, odd = rng.choice([*options, "x"]), ODD_TOML
        if key in options and rng.random() < 0.8:  # of the right type, so that it gets further
            odd = [v for v in ODD_TOML if config_file._broken_rule(options[key], v) is None]
        values[key] = rng.choice(odd)
    content = tomli_w.dumps(values).encode()
    if rng.random() < 0.2:
        content = _mutated_bytes(rng, content)
    Path(f"run{i}.toml").write_bytes(content)
    return f"fit --config run{i}.toml -o new.somf --force"


def main():
    """Attack until the time is over, and print what happened."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="somf-attack-"))
    attack = Attack(folder, options.seed)
    print(f"seed {options.seed}, {options.minutes:g} minutes", flush=True)
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        for what in (attack.kills, attack.interrupts, attack.mutants, attack.toml):
            try:
                what()
            except BrokenPromiseError as error:
                attack.wrong.append(str(error))
                print(f"wrong: {error}", flush=True)
    for name, count in sorted(attack.counts.items()):
        print(f"{count:8,}  {name}")
    print(f"{len(attack.wrong):8,}  wrong")
    if attack.wrong:
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
