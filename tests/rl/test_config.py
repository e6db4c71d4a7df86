"""A user's mistake gives the value, the legal set and what to do, in one line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envs import registry
from rl.config import legal_keys, method_names, resolve
from rl.configdoc import render
from rl.errors import ConfigError
from rl.train import help_text


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ("optim.lrr=1", "did you mean 'optim.lr'"),
        ("rollout.group_sise=4", "did you mean 'rollout.group_size'"),
        ("env=terminl", "did you mean 'terminal'"),
        ("algorithm=grop", "'grpo'"),
        ("recipe=smoek", "did you mean 'smoke'"),
        ("recipe=missing.yaml", "no such file"),
        ("optim.lr=fast", "number"),
        ("rollout.top_p=0.9", "cannot be trained on"),
        ("rollout.min_group=99", "group_size"),
        ("nonsense", "not key=value"),
        ("resume=/nowhere", "no run there"),
        ("optim.lr=[1", "optim.lr"),
        ("model=${foo}", "foo"),
        ("recipe=", "no value"),
        ("optim.lr=inf", "finite"),
        ("optim.betas=[2,5]", "less than 1"),
        ("rollout.temperature=3", "less than or equal to 2"),
        ("agent.max_reply_tokens=5000", "engine.context"),
        ("seed=99999999999999999999999", "seed"),
        ("tasks.levels=easy", "tasks.levels=[easy]"),
        ("tasks.families=paths", "tasks.families=[paths]"),
        ("device=cuda", "engine=sglang"),
        ("learning_rate=1", "optim.lr"),
        ("lora=true", "lora.enabled"),
    ],
)
def test_mistakes_are_named(argument: str, says: str) -> None:
    """Silently ignored options are the worst kind of configuration."""
    with pytest.raises(ConfigError) as caught:
        resolve([argument])
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_far_names_are_not_suggested() -> None:
    """``device`` is not ``recipe``: a wrong hint costs more than none."""
    for argument in ("device=cuda", "xyzzy=1", "gpu=0"):
        with pytest.raises(ConfigError) as caught:
            resolve([argument])
        assert "did you mean" not in str(caught.value)


def test_key_given_twice_is_refused() -> None:
    """Which of two environments is meant, nobody can know."""
    for twice in (["env=terminal", "env=swe"], ["algorithm=grpo", "algorithm.name=rloo"]):
        with pytest.raises(ConfigError, match="twice"):
            resolve(twice)


def test_section_in_a_recipe_that_holds_a_value_is_explained(tmp_path: Path) -> None:
    """``optim: 3`` is a slip of indentation, not a matter of dictionaries and instances."""
    recipe = tmp_path / "slip.yaml"
    recipe.write_text("optim: 3\n")
    with pytest.raises(ConfigError, match=r"'optim' is a section of its own keys, optim\.lr"):
        resolve([f"recipe={recipe}"])


def test_help_names_every_environment_and_method() -> None:
    """A new row of the registry is found by people without anybody writing it down again."""
    text = help_text()
    assert all(re.search(rf"\b{name}\b", text) for name in (*registry.names(), *method_names()))


def test_layers_override_in_order(tmp_path: Path) -> None:
    """Defaults, then the environment's recipe, then recipe=, then the command line."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("optim: {lr: 0.5, steps: 7}\nalgorithm: rloo\n")
    config = resolve(["env=swe", f"recipe={recipe}", "optim.steps=9"])
    assert (config.optim.lr, config.optim.steps) == (0.5, 9)
    assert config.algorithm.name == "rloo"
    assert config.algorithm.kl_coef == resolve(["env=swe"]).algorithm.kl_coef


def test_unknown_key_in_a_recipe_is_refused(tmp_path: Path) -> None:
    """A misspelt key in a file is as wrong as on the command line."""
    recipe = tmp_path / "bad.yaml"
    recipe.write_text("optim: {learning_rate: 1}\n")
    with pytest.raises(ConfigError, match=r"unknown key 'optim\.learning_rate'"):
        resolve([f"recipe={recipe}"])


def test_recipe_names_its_environment_and_nothing_of_the_run(tmp_path: Path) -> None:
    """``env: swe`` in a recipe must not be merged over another environment's settings."""
    recipe = tmp_path / "mine.yaml"
    recipe.write_text("env: swe\n")
    assert resolve([f"recipe={recipe}"]).agent == resolve(["env=swe"]).agent
    recipe.write_text("resume: runs/x\n")
    with pytest.raises(ConfigError, match="command line"):
        resolve([f"recipe={recipe}"])
    recipe.write_text("optim.lr: 1\n")
    with pytest.raises(ConfigError, match="nest it"):
        resolve([f"recipe={recipe}"])


def test_names_that_look_like_numbers_stay_names() -> None:
    """``run=20240101`` is a folder."""
    assert resolve(["run=20240101", "model=123"]).run == "20240101"


def test_resumed_run_keeps_what_it_is(tmp_path: Path) -> None:
    """Another model, seed or task set under old episodes would be silent nonsense."""
    (tmp_path / "config.json").write_text('{"env": "terminal"}')
    assert resolve([f"resume={tmp_path}", "optim.steps=40"]).optim.steps == 40
    for argument in ("seed=3", "model=tiny", "tasks.limit=4", "run=elsewhere", "recipe=smoke"):
        with pytest.raises(ConfigError, match="keeps its"):
            resolve([f"resume={tmp_path}", argument])


def test_method_is_chosen_by_name_with_its_own_keys(tmp_path: Path) -> None:
    """A key of another method is refused, not ignored; defaults are the method's."""
    assert resolve(["algorithm=gspo"]).algorithm.loss == "gspo"
    assert resolve(["algorithm=opd", "algorithm.clip=2"]).algorithm.model_dump()["clip"] == 2
    assert not resolve(["algorithm=binary"]).algorithm.train_truncated
    with pytest.raises(ConfigError, match="not a setting of algorithm=rloo"):
        resolve(["algorithm=rloo", "algorithm.clip=2"])
    with pytest.raises(ConfigError, match=r"^algorithm\.loss='ppo_clip'"):
        resolve(["algorithm=gspo", "algorithm.loss=ppo_clip"])


def test_resumed_run_can_change_its_method(tmp_path: Path) -> None:
    """The written configuration holds every key of the old method; the new one takes over what was
    chosen, not the old defaults."""
    old = resolve(["env=terminal", "algorithm=grpo", "algorithm.clip_low=0.1"])
    (tmp_path / "config.json").write_text(json.dumps(old.model_dump()))
    new = resolve([f"resume={tmp_path}", "algorithm=gspo"]).algorithm
    assert (new.name, new.loss, new.clip_low) == ("gspo", "gspo", 0.1)
    assert new.kl_coef == old.algorithm.kl_coef == 0.0
    assert resolve([f"resume={tmp_path}"]).algorithm == old.algorithm


def test_every_recipe_is_valid() -> None:
    """What we ship must load."""
    for name in ("terminal", "swe", "smoke"):
        resolve([f"recipe={name}"])


def test_document_lists_every_key() -> None:
    """The configuration document is generated, and complete."""
    text = render()
    assert all(f"`{key}`" in text for key in legal_keys())


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [(["optim.lrr=1"], 2, "optim.lr"), (["--help"], 0, "usage"), ([], 2, "usage")],
)
def test_command_line_exit_codes(arguments: list[str], code: int, says: str) -> None:
    """Scripts rely on 2 for wrong use; an import of torch here would cost seconds."""
    done = subprocess.run(
        [sys.executable, "-m", "rl.train", *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == code
    assert says in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_import_stay_light() -> None:
    """``import rl`` and ``--help`` must not pull torch, ray or docker in."""
    probe = (
        "import sys; import rl, rl.train, envs, agents, serving, benchmarks; rl.train.main(['-h']);"
        "sys.exit(any(m in sys.modules for m in ('torch', 'ray', 'docker', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True).returncode == 0
