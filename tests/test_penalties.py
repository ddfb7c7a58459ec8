"""Penalties, projections and support functions satisfy their definitions."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from somf.penalties import AtomBall, CodePenalty

ratios = st.sampled_from([0.0, 1.0]) | st.floats(0.0, 1.0)
balls = st.builds(AtomBall, ratios, st.booleans())
entries = st.sampled_from([0.0, 1.0, -1.0]) | st.floats(-10, 10).map(lambda x: round(x, 6))
vectors = arrays(np.float64, st.integers(1, 12), elements=entries)
radii = st.sampled_from([0.0, 1.0]) | st.floats(1e-3, 5)


def feasible_points(ball, radius, size, seed=0):
    """Return random points of the ball as columns."""
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((size, 50)) * (rng.random((size, 50)) < 0.5)
    points = ball.normalise(points) * rng.random(50)
    # ‖s d‖ ≤ s ‖d‖ for s ≤ 1, so the points are feasible for a smaller radius too.
    return points * min(radius, 1.0)


@given(balls, vectors, radii)
@settings(max_examples=300, deadline=None)
def test_a_projection_is_feasible_and_the_nearest_point(ball, u, radius):
    v = ball.project(u, radius)
    assert ball.norm(v[:, None])[0] <= radius + 1e-9
    assert not ball.positive or (v >= 0).all()
    # v is the projection of u onto a convex set iff ⟨u − v, d − v⟩ ≤ 0 for all d in the set.
    others = feasible_points(ball, radius, len(u))
    assert ((u - v) @ (others - v[:, None])).max() <= 1e-7 * (1 + np.abs(u).max())


@given(balls, vectors, radii)
@settings(deadline=None)
def test_a_second_projection_changes_nothing(ball, u, radius):
    once = ball.project(u, radius)
    np.testing.assert_allclose(ball.project(once, radius), once, atol=1e-9)


@given(balls, vectors)
@settings(deadline=None)
def test_a_feasible_point_is_its_own_projection(ball, u):
    inside = ball.normalise(u[:, None])[:, 0] * 0.999
    np.testing.assert_array_equal(ball.project(inside), inside)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_the_projection_is_zero_without_a_budget(mu, positive):
    ball = AtomBall(mu, positive)
    assert not ball.project(np.array([1.0, -2.0, 0.5]), 0.0).any()
    assert not ball.project(np.array([1.0, -2.0, 0.5]), -1e-9).any()


@given(
    balls, arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=entries)
)
@settings(max_examples=200, deadline=None)
def test_the_support_function_is_the_largest_inner_product_with_the_ball(ball, Z):
    support = ball.support(Z)
    others = feasible_points(ball, 1.0, len(Z))
    assert (Z.T @ others <= support[:, None] + 1e-9).all()
    # The projections of larger and larger multiples of z converge to a maximiser.
    for z, expected in zip(Z.T, support, strict=True):
        best = z @ ball.project(1e7 * z)
        assert best >= expected - 1e-4 * (1 + abs(expected))


@pytest.mark.parametrize("mu", [0.0, 1.0])
def test_the_support_function_of_a_norm_ball_is_the_dual_norm(mu):
    Z = np.random.default_rng(0).standard_normal((9, 4))
    dual = np.abs(Z).max(axis=0) if mu == 1 else np.linalg.norm(Z, axis=0)
    np.testing.assert_allclose(AtomBall(mu, False).support(Z), dual)


@given(balls, vectors)
@settings(deadline=None)
def test_normalised_columns_have_norm_one_unless_they_are_zero(ball, u):
    normalised = ball.normalise(u[:, None])
    left = np.maximum(u, 0) if ball.positive else u
    expected = 1.0 if left.any() else 0.0
    np.testing.assert_allclose(ball.norm(normalised), expected, atol=1e-9)


@pytest.mark.parametrize("mu", [0.0, 0.5, 1.0])
def test_float32_stays_float32(mu):
    ball = AtomBall(mu, False)
    u = np.array([3.0, -4.0], dtype=np.float32)
    assert ball.project(u).dtype == np.float32
    assert ball.normalise(u[:, None]).dtype == np.float32
    assert ball.norm(u[:, None]).dtype == np.float32


def test_the_penalty_has_no_half_on_the_square():
    penalty = CodePenalty(alpha=2.0, l1_ratio=0.25, positive=False)
    code = np.array([[1.0, -3.0]])
    np.testing.assert_allclose(penalty.value(code), 2.0 * (0.25 * 4 + 0.75 * 10))


@given(balls, vectors, st.floats(0.01, 3), st.integers(0, 100))
@example(AtomBall(5e-324, False), np.array([1.0]), 0.5, 0)
@example(AtomBall(1 - 1e-16, True), np.array([10.0, 0.1]), 0.5, 0)
@settings(deadline=None)
def test_the_weighted_minimum_is_feasible_and_the_lowest_point(ball, u, radius, seed):
    rng = np.random.default_rng(seed)
    c = rng.uniform(0.1, 2, len(u))
    d = ball.weighted_minimum(u, c, radius)
    assert ball.norm(d[:, None])[0] <= radius * (1 + 1e-9)
    np.testing.assert_allclose(
        ball.weighted_minimum(u, np.ones_like(u), radius), ball.project(u, radius), atol=1e-9
    )

    def value(point):
        return (c * point**2 / 2 - u * point).sum()

    for _ in range(10):
        other = ball.project(rng.standard_normal(len(u)) * np.abs(u).max(initial=1), radius)
        assert value(d) <= value(other) + 1e-9 * (1 + np.abs(u).sum())
