"""Programs that tests run in new processes."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FORKS = """
import importlib, json, os, sys
folder, program, runs, modules = sys.argv[1], *json.load(sys.stdin)
for module in modules:
    importlib.import_module(module)
if "numba" in sys.modules:  # which otherwise imports the rest of itself at the first call
    from numba.core.registry import cpu_target
    cpu_target.typing_context.refresh()
    cpu_target.target_context.refresh()
codes = []
for number, arguments in enumerate(runs):
    child = os.fork()
    if child == 0:
        for descriptor, name in enumerate(("out", "err"), 1):
            os.dup2(os.open(f"{folder}/{number}.{name}", os.O_CREAT | os.O_WRONLY), descriptor)
        sys.argv[1:] = arguments
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
        sys.exit()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(codes))
"""
"""A program that imports modules once, and runs another program in a child for each list of
arguments."""


FITTING = ("sklearn.base", "numba", "somf.estimators.base", "somf.kernels.cpu.kernels")
"""Modules that a fit imports: most of the time of a short one."""


def run_forks(program, runs, modules, timeout=300, **options):
    """Run a program several times, one after the other, without importing modules each time.

    Each run is a process of its own, and none sees what another has imported or changed.

    Parameters
    ----------
    program : str
    runs : list of lists of str
        The arguments of each run.
    modules : sequence of str
        Imported before the first run.
    timeout : float
        Seconds for all runs.
    **options
        Of `subprocess.run`.

    Returns
    -------
    list of subprocess.CompletedProcess
        With output as text.
    """
    if not hasattr(os, "fork"):
        return [
            run_python(program, *arguments, check=False, timeout=timeout, **options)
            for arguments in runs
        ]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-W", "ignore:.*fork:DeprecationWarning", "-c", FORKS, folder],
            input=json.dumps([program, runs, modules]),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            **options,
        )
        assert done.returncode == 0, done.stderr

        def said(number, name):
            return Path(folder, f"{number}.{name}").read_text("utf-8")

        return [
            subprocess.CompletedProcess(run, code, said(number, "out"), said(number, "err"))
            for number, (run, code) in enumerate(zip(runs, json.loads(done.stdout), strict=True))
        ]


def run_python(program, *arguments, check=True, timeout=300, **options):
    """Run a program; return the finished process, with its output as text.

    Parameters
    ----------
    program : str
    *arguments
        Those of the program.
    check : bool
        Whether the program must succeed; the assertion shows its errors.
    timeout : float
        Seconds.
    **options
        Of `subprocess.run`.
    """
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        **options,
    )
    assert done.returncode == 0 or not check, done.stderr
    return done
