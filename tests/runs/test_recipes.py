from importlib.resources import files

import pytest
from typer.testing import CliRunner

from lcml.cli import app
from lcml.cli.config_file import checked_options
from lcml.cli.train import OPTIONS
from lcml.errors import SettingsError
from lcml.runs.config import TrainConfig
from lcml.runs.recipes import recipe_names, recipe_options


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_is_a_valid_training_and_says_what_it_was_chosen_on(name: str) -> None:
    options = checked_options(recipe_options(name), name, OPTIONS)
    config = TrainConfig().with_options(options)
    assert {option: config.as_dict()[option] for option in options} == recipe_options(name)
    assert config != TrainConfig()
    comment = [
        line for line in (files("lcml.runs.recipes") / f"{name}.toml").read_text().splitlines() if line[:1] == "#"
    ]
    assert "hosen on" in " ".join(comment)


def test_the_flat_recipes_are_the_options_of_the_benchmarks() -> None:
    expected = {"max_parameters": 164000, "minimum_support": 20, "l2": 3e-5, "l2_path": [3e-5, 1e-5]}
    assert recipe_options("mnist-flat") == {"data": "mnist", **expected}
    assert recipe_options("fashion-flat") == {"data": "fashion-mnist", **expected, "max_parameters": 260000}


def test_an_unknown_recipe_lists_those_that_there_are() -> None:
    with pytest.raises(SettingsError, match=r"expected one of .*fashion-flat, .*mnist-flat.*, found 'pudding'"):
        recipe_options("pudding")


def test_the_help_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    shown = CliRunner().invoke(app, ["train", "--help"]).stdout
    assert all(name in shown for name in recipe_names())
