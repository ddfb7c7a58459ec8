"""Programs that tests run in new processes."""

import subprocess
import sys


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
