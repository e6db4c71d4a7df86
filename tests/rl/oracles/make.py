"""Makes the oracle files: ``python -m tests.rl.oracles.make [--check]``.

Random inputs (``inputs.npz``) are given to the published functions of two well-known trainers, each
in an environment of its own under ``~/.cache/clawgym/oracles``; what they return is kept beside
this file (``verl.npz``, ``trl.npz``), so that every test run compares without installing them.
``--check`` makes them again and fails when they differ from what is kept. An environment borrows
torch, numpy and transformers from the project's own and installs the rest (about 200 MB).
"""

import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = Path.home() / ".cache" / "clawgym" / "oracles"
GROUP_SIZE, NUM_GROUPS, LENGTH = 4, 6, 9


@dataclass(frozen=True)
class Oracle:
    """A package at a version, and what its imports need beyond the project's own environment."""

    name: str
    version: str
    needs: tuple[str, ...]

    @property
    def python(self) -> Path:
        """The interpreter of its environment."""
        return ENVIRONMENTS / f"{self.name}-{self.version}" / "bin" / "python"


ORACLES = (
    Oracle(
        "verl",
        "0.9.1",
        ("tensordict", "pandas", "codetiming", "pytz", "hydra-core", "antlr4-python3-runtime",
         "datasets", "dill", "orjson", "pyvers", "importlib_metadata", "zipp"),
    ),
    Oracle(
        "trl", "1.16.0", ("pandas", "datasets", "dill", "multiprocess", "xxhash", "pyarrow", "pytz")
    ),
)  # fmt: skip


def inputs(seed: int = 20) -> dict[str, np.ndarray]:
    """Return ragged sequences of groups, with log-probs far enough apart to be clipped."""
    rng = np.random.default_rng(seed)
    num = GROUP_SIZE * NUM_GROUPS
    lengths_B = rng.integers(1, LENGTH + 1, num)
    mask_BT = (np.arange(LENGTH) < lengths_B[:, None]).astype(np.float64)
    old_BT = rng.normal(-2.0, 0.7, (num, LENGTH))
    rewards_B = rng.choice([0.0, 0.25, 1.0], num)
    rewards_B[:GROUP_SIZE] = [1.0, 0.0, 0.0, 1.0]
    rewards_B[GROUP_SIZE : 2 * GROUP_SIZE] = 1.0  # a group that teaches nothing
    return {
        "mask_BT": mask_BT,
        "old_BT": old_BT,
        "logprobs_BT": old_BT + rng.normal(0.0, 0.5, (num, LENGTH)),
        "engine_BT": old_BT + rng.normal(0.0, 0.5, (num, LENGTH)),
        "ref_BT": old_BT + rng.normal(0.0, 0.5, (num, LENGTH)),
        "advantages_BT": np.broadcast_to(rng.normal(0.0, 1.0, (num, 1)), (num, LENGTH)).copy(),
        "rewards_B": rewards_B,
        "group_B": np.repeat(np.arange(NUM_GROUPS), GROUP_SIZE),
        "group_size": np.array(GROUP_SIZE),
        "clip_low": np.array(0.2),
        "clip_high": np.array(0.28),
        "dual_clip": np.array(1.5),
        "norm_length": np.array(32),
        "kl_coef": np.array(0.05),
    }


def ensure(oracle: Oracle) -> None:
    """Make an oracle's environment where it is missing."""
    root = oracle.python.parent.parent
    ready = root / "ready"
    if ready.exists():
        return
    venv.create(root, with_pip=True)
    (own,) = (p for p in sys.path if p.endswith("site-packages"))
    (site,) = root.glob("lib/python3*/site-packages")
    (site / "borrowed.pth").write_text(own + "\n")
    packages = [f"{oracle.name}=={oracle.version}", *oracle.needs]
    pip = [str(oracle.python), "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, *packages], check=True)
    ready.touch()


def outputs(oracle: Oracle, given: Path) -> dict[str, np.ndarray]:
    """Return what the oracle's functions make of the inputs."""
    ensure(oracle)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "out.npz"
        script = HERE / f"{oracle.name}_outputs.py"
        subprocess.run([str(oracle.python), str(script), str(given), str(made)], check=True)
        return read(made)


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file."""
    with np.load(path) as loaded:
        return {name: loaded[name] for name in loaded.files}


def differences(oracle: Oracle) -> list[str]:
    """Return the names of kept outputs that the oracle no longer gives."""
    kept, made = read(HERE / f"{oracle.name}.npz"), outputs(oracle, HERE / "inputs.npz")
    if kept.keys() != made.keys() or str(kept["version"]) != str(made["version"]):
        return sorted(kept.keys() ^ made.keys()) or ["version"]
    numbers = [name for name in kept if name != "version"]
    return [n for n in numbers if not np.allclose(kept[n], made[n], rtol=1e-9, atol=1e-12)]


def main() -> int:
    """Run the command line."""
    if "--check" in sys.argv:
        wrong = {oracle.name: differences(oracle) for oracle in ORACLES}
        sys.stdout.write("".join(f"{name}: {w or 'as kept'}\n" for name, w in wrong.items()))
        return int(any(wrong.values()))
    np.savez(HERE / "inputs.npz", **inputs())
    for oracle in ORACLES:
        np.savez(HERE / f"{oracle.name}.npz", **outputs(oracle, HERE / "inputs.npz"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
