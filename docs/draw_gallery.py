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
    "hyperspy_nmf",
)
"""Examples whose figures are kept as PNG."""

PHOTOGRAPHS = ("denoising", "inpainting", "unmixing")
"""Examples whose figures are kept as JPEG."""

SCENE = ("spectra", "scene", "atoms")
"""Figures of the example with a hyperspectral scene, which several pages show."""

WIDTH = 1100
"""Pixels of the longer side."""

mpl.use("Agg")


def keep_drawing(picture: Image.Image, path: Path) -> None:
    """Write a small version of a drawing."""
    picture.thumbnail((WIDTH, WIDTH))
    picture.quantize(256).save(path, optimize=True)


with tempfile.TemporaryDirectory() as folder:
    example = runpy.run_path(str(HERE.parent / "examples" / "hyperspectral.py"))
    example["main"](["--output", folder])
    for name in SCENE:
        keep_drawing(Image.open(Path(folder) / f"{name}.png").convert("RGB"), HERE / f"{name}.png")
for name in (*DRAWINGS, *PHOTOGRAPHS):
    with tempfile.TemporaryDirectory() as folder:
        example = runpy.run_path(str(HERE.parent / "examples" / f"{name}.py"))
        example["main"](["--output", folder])
        picture = Image.open(Path(folder) / f"{name}.png").convert("RGB")
        if name in PHOTOGRAPHS:
            picture.thumbnail((WIDTH, WIDTH))
            picture.save(HERE / "gallery" / f"{name}.jpg", quality=85)
        else:
            keep_drawing(picture, HERE / "gallery" / f"{name}.png")
