"""The examples of the README run."""

import re
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
"""The README of the repository."""


def test_the_examples_of_the_readme_run_and_give_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL):
        exec(block, names)
    objective = names["model"].history_["objective"]
    assert objective[-1] < 0.95 * objective[0]
    assert names["codes"].shape == (1797, 50)
    assert names["patches"].shape == (16_900, 51_200)
    assert f"{(names['codes'] != 0).mean() * 100:.0f} % of the entries" in README.read_text()
