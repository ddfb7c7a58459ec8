"""The tutorial on brain maps, on small images."""

import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nilearn", reason="needs nilearn")

import nibabel
import pandas as pd

from tests.helpers.brains import mask_image, run_image

PAGE = Path(__file__).parents[3] / "docs" / "brain.md"
"""The tutorial."""


def test_the_examples_of_the_tutorial_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    nibabel.save(mask_image(), "brain_mask.nii.gz")
    for subject in (1, 2, 3):
        nibabel.save(run_image(subject, 40), f"sub-0{subject}_bold.nii.gz")
        motion = np.random.default_rng(subject).standard_normal((40, 2))
        pd.DataFrame(motion, columns=["x", "y"]).to_csv(f"sub-0{subject}_motion.csv", index=False)
    names = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL):
        exec(block, names)
    assert nibabel.load("maps.nii.gz").shape == (*mask_image().shape, 20)
    assert names["series"].shape == (40, 20)
    assert names["image"].shape == (*mask_image().shape, 40)
