"""Every parameter of the estimators is an option."""

import inspect
import re
from typing import get_args

import numpy as np
import pytest

pytest.importorskip("click", reason="the command comes with the extra 'cli'")

import click

import somf
from somf import MatrixFactorization
from somf.cli.estimator import CENTER, PROBLEMS, PYTHON_ONLY
from somf.cli.fit import fit
from somf.cli.options import documented, flag_of
from somf.estimators import config
from somf.estimators.loading import KINDS

OPTIONS = {parameter.name: parameter for parameter in fit.params}


def test_every_parameter_of_every_estimator_is_an_option_of_fit():
    for kind in KINDS.values():
        names = set(inspect.signature(kind).parameters) - {*PYTHON_ONLY, CENTER}
        assert names | {"offsets"} <= OPTIONS.keys()


def test_every_problem_can_be_chosen():
    assert set(PROBLEMS.values()) == set(KINDS.values())


@pytest.mark.parametrize("name", inspect.signature(MatrixFactorization).parameters)
def test_docstring_and_signature_agree(name):
    kind, text = documented(MatrixFactorization)[name]
    default = inspect.signature(MatrixFactorization).parameters[name].default
    told = re.search(r"default=(\S+)$", kind)
    assert text
    assert (eval(told[1]) if told else None) == default


def test_choices_are_those_that_are_checked():
    assert tuple(OPTIONS["masks"].type.choices) == get_args(config.MaskKind)
    assert tuple(OPTIONS["missing"].type.choices) == get_args(config.MissingEntries)
    assert tuple(OPTIONS["surrogate"].type.choices) == get_args(config.SurrogateKind)
    assert tuple(OPTIONS["code_estimator"].type.choices) == get_args(config.CodeEstimator)
    assert OPTIONS["init"].metavar == "|".join([*get_args(config.InitialAtoms), "FILE"])
    assert tuple(OPTIONS["device"].type.choices) == get_args(config.Device)
    assert tuple(OPTIONS["dtype"].type.choices) == tuple(dtype.name for dtype in config.DTYPES)


def test_types_are_those_of_the_signature():
    assert OPTIONS["n_components"].type is click.INT
    assert OPTIONS["random_state"].type is click.INT
    assert OPTIONS["code_tol"].type is click.FLOAT
    assert OPTIONS["positive_code"].secondary_opts == ["--no-positive-code"]
    assert isinstance(OPTIONS["checkpoint"].type, click.Path)
    assert OPTIONS["hash_data"].secondary_opts == ["--no-hash-data"]


def test_some_options_have_shorter_names():
    flags = {name: option.opts[0] for name, option in OPTIONS.items() if name != "data"}
    assert flags["n_components"] == flag_of("n_components") == "--components"
    assert (flags["alpha"], flags["code_density"]) == ("--alpha", "--density")
    assert flags["n_epochs"] == "--epochs"
    assert flags["random_state"] == "--seed"
    assert flags["code_estimator"] == "--code-estimator"


def test_an_option_that_is_not_given_has_the_default_of_the_estimator(somf_command):
    somf_command("fit rows.npy -o rows.somf")
    defaults = somf.DictionaryLearning().get_params()
    given = somf.load("rows.somf").get_params() | {"callbacks": ()}
    assert given == defaults | {"random_state": 0}


def test_the_help_lists_the_problems_that_have_an_option():
    assert OPTIONS["l1_ratio"].help.endswith(
        "Only for --problem matrix-factorization.  [default: 1.0]"
    )
    for name, option in OPTIONS.items():
        having = {p for p, kind in PROBLEMS.items() if name in inspect.signature(kind).parameters}
        told = re.search(r"Only for --problem (.*?)\.  \[", getattr(option, "help", "") or "")
        if having:
            assert set(told[1].split(" and ") if told else PROBLEMS) == having


def test_options_reach_the_estimator(somf_command):
    somf_command(
        "fit rows.npy --problem matrix-factorization --components 4 --alpha 0.3 --l1-ratio 0.5 "
        "--positive-atoms --masks bernoulli --dtype float32 --seed 3 -o rows.somf"
    )
    model = somf.load("rows.somf")
    assert type(model) is MatrixFactorization
    assert (model.n_components, model.alpha, model.l1_ratio) == (4, 0.3, 0.5)
    assert (model.positive_atoms, model.positive_code) == (True, False)
    assert (model.masks, model.dtype, model.random_state) == ("bernoulli", "float32", 3)


def test_initial_atoms_may_come_from_a_file(somf_command):
    atoms = np.load("rows.npy")[:4]
    np.save("atoms.npy", atoms)
    somf_command("fit rows.npy --components 4 --init atoms.npy -o rows.somf")
    model = somf.load("rows.somf")
    np.testing.assert_array_equal(model.init, atoms)
    same = somf.DictionaryLearning(4, init=atoms, random_state=0).fit("rows.npy")
    np.testing.assert_array_equal(model.components_, same.components_)
    somf_command("fit rows.npy --components 4 --init rows.somf -o more.somf")
    np.testing.assert_array_equal(somf.load("more.somf").init, model.components_)
    somf_command("fit rows.npy --init rows.somf -o wrong.somf", code=2)
    assert "--init must have n_components=100 rows, got 4" in " ".join(somf_command.errors.split())


def test_reduction_may_be_auto(somf_command):
    somf_command("fit rows.npy --components 4 --reduction auto -o rows.somf")
    assert somf.load("rows.somf").reduction == "auto"


@pytest.mark.parametrize("is_in_file", [False, True], ids=["option", "TOML"])
def test_hashed_data_that_changes_between_two_runs_is_an_error(somf_command, is_in_file):
    with open("run.toml", "w") as file:
        file.write("checkpoint = 'c'\nhash-data = true" if is_in_file else "checkpoint = 'c'")
    fit = "fit rows.npy --components 4 --config run.toml --force -o rows.somf"
    hashed = fit if is_in_file else f"{fit} --hash-data"
    somf_command(f"{hashed} --epochs 1")
    rows = np.load("rows.npy")
    rows[1] *= 2  # not among the 32 rows that are always compared
    np.save("rows.npy", rows)
    somf_command(f"{hashed} --epochs 2", code=1)
    assert "X must be the same in all epochs" in somf_command.errors
    somf_command(f"{fit} --epochs 2 --no-hash-data")


def test_the_file_of_a_run_has_neither_its_checkpoint_nor_what_belongs_to_it(somf_command):
    somf_command("fit rows.npy --components 4 --checkpoint c --hash-data -o rows.somf")
    with open("rows.somf.toml", encoding="utf-8") as file:
        told = file.read()
    assert "components = 4" in told
    assert "checkpoint" not in told
    assert "hash" not in told


def test_a_density_determines_alpha(somf_command):
    result = somf_command.json("fit rows.npy --components 8 --density 0.2 -o rows.somf")
    model = somf.load("rows.somf")
    assert (model.alpha, model.code_density) == ("auto", 0.2)
    assert result["alpha"] == model.alpha_
    assert result["requested_density"] == 0.2
    density = somf_command.json("score rows.somf rows.npy")["density"]
    assert density == pytest.approx(0.2, rel=0.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--components 0", "Error: --components must be at least 1, got 0."),
        ("--components many", "'many' is not a valid integer"),
        ("--reduction 0.5", "--reduction must be at least 1, or 'auto', got 0.5"),
        ("--alpha some", "'some' is not a number or 'auto'"),
        ("--reduction much", "'much' is not a number or 'auto'"),
        ("--alpha 0.1 --density 0.2", "--alpha and --density exclude each other"),
        ("--density 2", "--density must be strictly between"),
        (
            "--problem sparse-pca --density 0.1",
            "--density is not an option of --problem sparse-pca",
        ),
        ("--l1-ratio 0.5", "--l1-ratio is not an option of --problem dictionary-learning"),
        ("--init sample", "'nndsvd' or 'auto' or a file, got 'sample'"),
        ("--masks none", "'none' is not one of 'blocks', 'bernoulli'"),
        ("--patches 16by16", "'16by16' is not of the form 16, 16x16"),
        ("--patches 0x3", "'0x3' is not of the form"),
        ("--wrong", "No such option"),
        ("--validation nan", "Invalid value for '--validation': It must be a fraction"),
        ("--validation 2", "Invalid value for '--validation'"),
        ("--validation -1", "Invalid value for '--validation'"),
        ("--seed -1", "--seed must be at least 0"),
        ("--seed 4294967296", "--seed must be at least 0 and less than 2**32"),
        ("--problem pca", "'pca' is not one of"),
        ("--hash-data", "--hash-data needs --checkpoint"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(somf_command, options, message):
    somf_command(f"fit missing.npy -o rows.somf {options}", code=2)
    assert message in " ".join(somf_command.errors.split())
