"""Run the examples and keep what they draw, small: `python docs/draw_gallery.py`."""

import runpy
import tempfile
from pathlib import Path

import matplotlib as mpl
from PIL import Image

HERE = Path(__file__).parent
DRAWINGS = ("digits_nmf", "sparse_pca", "topics", "streaming", "model_selection")
PHOTOGRAPHS = ("denoising",)
WIDTH = 1100

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
