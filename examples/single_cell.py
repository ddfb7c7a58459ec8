"""Find gene programs of blood cells.

The cells are 700 of 10x Genomics' peripheral blood mononuclear cells, which come with scanpy, with
logarithms of normalised counts of 765 genes. A program is an atom: genes that are expressed
together. Types of cells were found without these programs, which know nothing of them.

    pip install 'somf[anndata,plot]' scanpy
    python examples/single_cell.py --output demo
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scanpy
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from somf.integrations.anndata import nmf

N_GENES = 4
"""Genes that are shown of a program."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn programs, print their genes, and draw how much cells use them."""
    options = parse_options(arguments)
    options.output.mkdir(parents=True, exist_ok=True)
    adata = scanpy.datasets.pbmc68k_reduced().raw.to_adata()

    nmf(adata, options.programs)
    found = adata.uns["nmf"]
    print(f"{adata.n_obs} cells × {adata.n_vars} genes, {options.programs} programs")
    print(f"relative error {found['relative_error']:.1%}, {found['n_epochs']:.0f} epochs")

    usage = adata.obsm["X_nmf"]
    for program in np.argsort(-usage.sum(axis=0)):
        kinds = adata.obs["bulk_labels"].to_numpy()
        means = {kind: usage[kinds == kind, program].mean() for kind in np.unique(kinds)}
        genes = ", ".join(top_genes(adata, program, 2 * N_GENES))
        print(f"program {program + 1}: most used by {max(means, key=means.get)}: {genes}")

    figure = draw(adata)
    figure.savefig(options.output / "single_cell.png", dpi=130)
    plt.close(figure)
    adata.write_h5ad(options.output / "single_cell.h5ad")


def top_genes(adata: Any, program: int, count: int) -> list[str]:
    """Return the genes that stand out in a program, compared with all other programs."""
    atoms = adata.varm["nmf"]
    others = np.delete(atoms, program, axis=1).max(axis=1)
    order = np.argsort(-(atoms[:, program] - others))[:count]
    return [str(adata.var_names[gene]) for gene in order]


def draw(adata: Any) -> Figure:
    """Draw cells where scanpy's UMAP has put them, by type and by the use of each program."""
    usage, place = adata.obsm["X_nmf"], adata.obsm["X_umap"].T
    n_panels = usage.shape[1] + 1
    n_rows = -(-n_panels // 3)
    figure, axes = plt.subplots(n_rows, 3, figsize=(9, 2.9 * n_rows), layout="constrained")
    kinds = adata.obs["bulk_labels"].astype("category")
    axes.flat[0].set_title("types of cells", fontsize=9)
    for number, kind in enumerate(kinds.cat.categories):
        own = (kinds == kind).to_numpy()
        axes.flat[0].scatter(*place[:, own], s=5, color=f"C{number}", label=kind)
    axes.flat[0].legend(fontsize=4.5, loc="upper right", frameon=False, handletextpad=0)
    order = np.argsort(-usage.sum(axis=0))
    for ax, program in zip(axes.flat[1:], order, strict=False):
        shown = np.argsort(usage[:, program])  # cells with the largest usage on top
        ax.scatter(*place[:, shown], s=5, c=usage[shown, program], cmap="viridis")
        ax.set_title(", ".join(top_genes(adata, program, N_GENES)), fontsize=9)
    for ax in axes.flat:
        ax.axis("off")
    return figure


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo"))
    parser.add_argument("--programs", type=int, default=8)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
