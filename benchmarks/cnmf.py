"""cNMF with the factorizations of scikit-learn and with those of somf, side by side.

    pip install '.[cnmf]'
    python -m benchmarks.cnmf [--cells 50000] [--runs 20] [--programs 10 20] [--only-somf]

Cells are resampled from the counts that ship with scanpy (see `benchmarks.datasets`). Both classes
run the same pipeline with the same seeds, on one thread. The CPU time is that of `factorize`, after
a small one that compiles. Silhouette and error are what cNMF's `k_selection_plot` shows: how well
the spectra of all runs fall into clusters, and ‖X − usages spectra‖² of the consensus. With
`--only-somf`, the results of scikit-learn are kept.
"""

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.datasets import resampled_cells
from benchmarks.machine import seconds_of_others, write_results
from somf.integrations.gene_programs import factorize, usages_of
from somf.typing import Array


def write_counts(n_cells: int, path: Path) -> None:
    """Write resampled cells, without genes that none of them has."""
    import anndata

    drawn = resampled_cells(n_cells)
    adata = anndata.AnnData(sp.csr_matrix(drawn[:, drawn.any(axis=0)].astype(np.float32)))
    adata.obs_names = [f"cell {i}" for i in range(adata.n_obs)]
    adata.var_names = [f"gene {i}" for i in range(adata.n_vars)]
    adata.write_h5ad(path)


def run_pipeline(kind: Any, counts: Path, k: int, n_runs: int) -> dict[str, Any]:
    """Return the CPU time of all runs of one k, and what their consensus is worth."""
    with tempfile.TemporaryDirectory() as folder:
        run = kind(output_dir=folder, name="runs")
        run.prepare(str(counts), [k], n_iter=n_runs, seed=1, num_highvar_genes=2000)
        wall, cpu, others = perf_counter(), process_time(), seconds_of_others()
        run.factorize()
        wall, cpu = perf_counter() - wall, process_time() - cpu
        busy = (seconds_of_others() - others) / wall / (os.cpu_count() or 1)
        run.combine()
        stats = run.consensus(
            k, skip_density_and_return_after_stats=True, show_clustering=False
        ).stats
        return {
            "cpu seconds": cpu,
            "wall seconds": wall,
            "others": busy,
            "silhouette": float(stats["silhouette"]),
            "error": float(stats["prediction_error"]),
            "errors of runs": errors_of_runs(run, k, n_runs),
        }


def errors_of_runs(run: Any, k: int, n_runs: int) -> list[float]:
    """Return ‖X − usages spectra‖² of every run, with the best usages for its spectra."""
    import cnmf
    import scanpy

    X = sp.csr_array(scanpy.read_h5ad(run.paths["normalized_counts"]).X)
    paths = (run.paths["iter_spectra"] % (k, i) for i in range(n_runs))
    return [error_of(X, cnmf.load_df_from_npz(path).values) for path in paths]


def error_of(X: sp.csr_array, spectra: Array) -> float:
    """Return ‖X − usages spectra‖² with the best usages."""
    usages = usages_of(X, spectra)
    fitted = float(((usages.T @ usages) * (spectra @ spectra.T)).sum())
    return float(np.square(X.data).sum()) - 2 * float((usages * (X @ spectra.T)).sum()) + fitted


def measure(
    n_cells: int, n_runs: int, programs: Sequence[int], known: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield numbers of programs, with what both libraries need and reach.

    Parameters
    ----------
    n_cells, n_runs : int
    programs : sequence of int
    known : dict
        Earlier results by the number of programs, whose peers are not measured again.
    """
    import cnmf

    from somf.integrations.cnmf import cNMF

    factorize(resampled_cells(100), 3)  # compiles
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.h5ad"
        write_counts(n_cells, counts)
        for k in programs:
            found: dict[str, Any] = {}
            for library, kind in (("somf", cNMF), ("scikit-learn", cnmf.cNMF)):
                if library == "scikit-learn" and str(k) in known:
                    found[library] = known[str(k)][library]
                    continue
                result = run_pipeline(kind, counts, k, n_runs)
                found[library] = result
                print(
                    f"k = {k}  {library:<14}{result['cpu seconds']:8.1f} s of CPU  silhouette "
                    f"{result['silhouette']:.3f}  error {result['error']:,.0f}",
                    flush=True,
                )
            yield str(k), found


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=50_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--programs", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/cnmf.json"))
    parser.add_argument("--only-somf", action="store_true", help="keep the results of peers")
    options = parser.parse_args()
    known = json.loads(options.output.read_text()) if options.only_somf else {"programs": {}}
    if options.only_somf:
        options.cells, options.runs = known["cells"], known["runs"]
    warnings.simplefilter("ignore")  # those of scanpy and cnmf
    result: dict[str, Any] = {"cells": options.cells, "runs": options.runs, "programs": {}}
    with threadpool_limits(1):
        measured = measure(options.cells, options.runs, options.programs, known["programs"])
        for k, found in measured:
            result["programs"][k] = found
            write_results(options.output, result)


if __name__ == "__main__":
    main()
