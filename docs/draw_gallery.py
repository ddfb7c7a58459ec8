"""Run the examples and keep small versions of their figures: `python docs/draw_gallery.py`."""

import runpy
import tempfile
from pathlib import Path

import matplotlib as mpl
from PIL import Image

HERE = Path(__file__).parent
"""The folder of the docs."""

DRAWINGS = (
    "digits_nmf",
    "sparse_pca",
    "ratings",
    "topics",
    "streaming",
    "model_selection",
    "single_cell",  # needs scanpy
)
"""Examples whose figures are kept as PNG."""

PHOTOGRAPHS = ("denoising", "inpainting")
"""Examples whose figures are kept as JPEG."""

WIDTH = 1100
"""Pixels of the longer side."""

mpl.use("Agg")
for name in (*DRAWINGS, *PHOTOGRAPHS):
    with tempfile.TemporaryDirectory() as folder:
        example = runpy.run_path(str(HERE.parent / "examples" / f"{name}.py"))
        example["main"](["--output", folder])
        picture = Image.open(Path(folder) / f"{name}.png").convert("RGB")
        picture.thumbnail((WIDTH, WIDTH))
        if name in PHOTOGRAPHS:
            picture.save(HERE / "gallery" / f"{name}.jpg", quality=85)
        else:
            picture.quantize(256).save(HERE / "gallery" / f"{name}.png", optimize=True)
