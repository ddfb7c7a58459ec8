"""From patches back to images: noise removed from a photograph, a scene unmixed, files, errors."""

import numpy as np
import pytest
from sklearn.datasets import load_sample_image
from sklearn.decomposition import NMF

import somf

pil = pytest.importorskip("PIL.Image", reason="PNG comes with the extra 'images'")

SIGMA = 25


def write_photograph(name, top=120, left=250, side=40):
    """Write a part of a real photograph, and the same with noise; return the clean one."""
    clean = load_sample_image("china.jpg").mean(axis=2)[top : top + side, left : left + side]
    noise = SIGMA * np.random.default_rng(top).standard_normal(clean.shape)
    for kind, image in (("clean", clean), ("noisy", clean + noise)):
        pixels = np.clip(np.rint(image), 0, 255).astype(np.uint8)
        pil.fromarray(pixels).save(f"{kind}-{name}.png")
    return clean


def psnr(path, clean):
    image = np.array(pil.open(path), dtype=float)
    return 20 * np.log10(255 / np.sqrt(np.mean((image - clean) ** 2)))


def test_noise_is_removed_from_photographs_of_different_sizes(somf_command):
    tower, roof = write_photograph("tower"), write_photograph("roof", 200, 300, 48)
    data = "noisy-tower.png noisy-roof.png"
    options = f"--patches 8x8 --no-scale --components 32 --alpha {1.5 * SIGMA} --epochs 3 --seed 0"
    somf_command(f"fit {data} {options} -o photo.somf")
    reconstruct = f"reconstruct photo.somf {data} --denoise --noise {SIGMA}"
    facts = somf_command.json(f"{reconstruct} -o 'less-{{name}}.png'")
    assert facts["patches"] == 33**2 + 41**2
    assert facts["noise"] == SIGMA
    for name, clean in (("tower", tower), ("roof", roof)):
        before, after = psnr(f"noisy-{name}.png", clean), psnr(f"less-noisy-{name}.png", clean)
        assert after > before + 2
    estimated = somf_command.json("reconstruct photo.somf noisy-roof.png --denoise -o roof.tif")
    assert estimated["noise"] == pytest.approx(SIGMA, rel=0.3)
    assert somf.ImagePatches("roof.tif", 8).images[0].dtype == np.float32


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_scene_is_unmixed_into_spectra_and_abundance_maps(somf_command):
    scene = load_scene()
    np.save("scene.npy", scene)
    pixels = "--patches 1x1 --no-center --no-scale"
    somf_command(
        f"fit scene.npy {pixels} --problem nmf --components 4 --epochs 6 --seed 0 -o scene.somf"
    )
    facts = somf_command.json("score scene.somf scene.npy")
    assert facts["samples"] == scene.shape[0] * scene.shape[1]
    somf_command("transform scene.somf scene.npy -o abundances.npy")
    patches = somf.ImagePatches("scene.npy", 1, center=False, scale=False)
    maps = patches.map("abundances.npy")
    assert maps.shape == (*scene.shape[:2], 4)
    assert (maps >= 0).all()
    somf_command("reconstruct scene.somf scene.npy -o again.npy")
    again = np.load("again.npy")
    np.testing.assert_allclose(again, maps @ somf.load("scene.somf").components_, rtol=1e-4)
    peer = NMF(4, max_iter=50, tol=0, random_state=0).fit(scene.reshape(-1, scene.shape[2]))
    assert np.linalg.norm(again - scene) <= 1.01 * peer.reconstruction_err_
    pytest.importorskip("matplotlib", reason="pictures come with the extra 'plot'")
    for kind in ("maps", "residuals"):
        somf_command(f"plot scene.somf scene.npy --kind {kind} -o {kind}.png")
        assert np.array(pil.open(f"{kind}.png")).std() > 10


def load_scene():
    """Return a small part of Indian Pines or, without tensorly, a mixture of spectra."""
    try:
        from somf.cli.scenes import indian_pines

        return indian_pines()[20:50, 30:62, ::4]
    except ImportError:
        from somf.cli.scenes import synthetic

        return synthetic(32, 50)


@pytest.mark.parametrize("kind", ["npy", "zarr", "tif", "hdr"])
def test_an_image_is_written_to_a_file_of_any_kind_and_replaced_only_by_force(somf_command, kind):
    somf_command("fit scene.npy --patches 4x4 --components 6 --epochs 1 -o scene.somf")
    line = f"reconstruct scene.somf scene.npy -o again.{kind}"
    somf_command(line)
    model, patches = somf.load("scene.somf"), somf.ImagePatches("scene.npy", 4)
    expected = patches.reconstruct(model.transform(patches), model.components_)
    found = somf.ImagePatches(f"again.{kind}", 4).images[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    somf_command(line, code=1)
    assert "exists. Add --force to replace it" in somf_command.errors
    somf_command(f"{line} --force")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("image.somf scene.npy -o again.bmp", "--output must end in one of .npy, .zarr, .tif"),
        ("image.somf scene.npy -o again.png", "add --dtype uint8"),
        ("image.somf scene.npy --noise 3 -o again.npy", "--noise needs --denoise"),
        ("image.somf scene.npy --denoise 25 -o again.npy", "write --denoise --noise 25"),
        ("image.somf scene.npy scene.npy -o again.npy", "--output must have {name}"),
        ("image.somf scene.npy scene.npy -o '{name}.npy'", "The images must have different names"),
        ("rows.somf rows.npy -o again.npy", "is not an image that was cut into patches"),
        ("nmf.somf scene.npy --denoise -o again.npy", "--denoise needs codes of any sign"),
        ("image.somf scene.npy --fill zero -o again.npy", "is not a number or 'original'"),
        ("image.somf scene.npy -o scene.npy --force", "which the same command needs"),
    ],
)
def test_what_cannot_be_reconstructed_has_a_clear_error(somf_command, line, message):
    patches = somf.ImagePatches(np.abs(np.load("scene.npy")), 4)
    somf.DictionaryLearning(3, n_epochs=1).fit(patches).save("image.somf")
    somf.NMF(3, n_epochs=1).fit(somf.ImagePatches(np.ones((8, 8, 3)), 4, center=False)).save(
        "nmf.somf"
    )
    somf.DictionaryLearning(3, n_epochs=1).fit("rows.npy").save("rows.somf")
    somf_command(f"reconstruct {line}", code=2)
    assert message in " ".join(somf_command.errors.split())


def test_codes_have_at_most_so_many_atoms(somf_command):
    somf_command("fit rows.npy --components 6 --epochs 1 -o rows.somf")
    somf_command("transform rows.somf rows.npy --max-atoms 2 -o codes.npy")
    assert np.count_nonzero(np.load("codes.npy"), axis=1).max() == 2
    somf_command("transform rows.somf rows.npy --max-error 0.9 -o few.npy")
    left = np.load("rows.npy") - np.load("few.npy") @ somf.load("rows.somf").components_
    assert np.linalg.norm(left, axis=1).max() <= 0.9 + 1e-6
