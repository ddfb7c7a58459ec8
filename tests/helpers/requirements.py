"""Print what the tests need, in the oldest versions that are declared or in the newest there are.

``make test-oldest`` and ``make test-newest`` install the list before any other library, so this
program needs the standard library alone.
"""

import re
import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
"""Where the requirements are declared."""

EXTRAS = ("test", "demo")
"""The extras whose requirements are printed, besides those that every user needs."""

LEFT_OUT = ("torch", "triton")
"""Libraries that are not installed: they are large, and ``make test`` has them in one version."""

REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[(?P<extras>[\w,-]+)\])?(?P<rule>[^;]*)")
"""A requirement: a name, extras and a rule for the version."""


def requirements(which):
    """Return lines for pip.

    Parameters
    ----------
    which : {"oldest", "newest"}
    """
    with PYPROJECT.open("rb") as file:
        project = tomllib.load(file)["project"]
    waiting = [*project["dependencies"], f"{project['name']}[{','.join(EXTRAS)}]"]
    found = {}
    while waiting:
        parts = REQUIREMENT.match(waiting.pop())
        name, rule = parts["name"], parts["rule"]
        if name == project["name"]:
            for extra in parts["extras"].split(","):
                waiting += project["optional-dependencies"][extra]
        elif name not in LEFT_OUT:
            found[name] = f"{name}{rule.replace('>=', '==')}" if which == "oldest" else name
    return sorted(found.values())


if __name__ == "__main__":
    print("\n".join(requirements(sys.argv[1])))
