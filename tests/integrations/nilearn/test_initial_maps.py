"""Initial maps are rotated principal components."""

import numpy as np

from somf.integrations.nilearn.initial_maps import initial_maps, varimax


def mixed_blocks(rng, n_scans=60):
    """Return scans of four networks of ten voxels each, and the networks."""
    networks = np.kron(np.eye(4), np.ones(10)).astype(np.float32)
    return rng.standard_normal((n_scans, 4)).astype(np.float32) @ networks, networks


def test_initial_maps_find_networks_that_do_not_overlap():
    scans, networks = mixed_blocks(np.random.default_rng(0))
    maps = initial_maps(scans, 4)
    assert maps.dtype == np.float32
    np.testing.assert_allclose(np.abs(maps).sum(axis=1), 1, rtol=1e-5)
    cosines = np.abs(maps @ networks.T) / np.linalg.norm(maps, axis=1)[:, None] / np.sqrt(10)
    np.testing.assert_allclose(np.sort(cosines.max(axis=0)), 1, atol=1e-3)


def test_varimax_is_a_rotation_that_does_not_lower_its_criterion():
    rng = np.random.default_rng(1)
    components = np.linalg.qr(rng.standard_normal((50, 5)) ** 3)[0].T
    rotated = varimax(components)
    np.testing.assert_allclose(rotated @ rotated.T, np.eye(5), atol=1e-10)
    np.testing.assert_allclose(rotated.T @ rotated, components.T @ components, atol=1e-10)
    assert (rotated**2).var(axis=1).sum() >= (components**2).var(axis=1).sum()


def test_too_few_scans_or_too_low_a_rank_give_no_initial_maps():
    scans, _ = mixed_blocks(np.random.default_rng(2))
    assert initial_maps(scans[:7], 4) is None
    assert initial_maps(scans, 5) is None
