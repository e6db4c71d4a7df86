"""``python -m rl.doctor``: what this machine can run, and which recipe, before anything starts.

One line per finding: ok, or what is missing and the remedy. Exit code 0 when every environment can
run, 3 otherwise; without Docker it says which ones still can.
"""

import os
import shutil
import sys
from collections.abc import Collection
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from envs.errors import MissingDependency

GIB = 2**30
NEEDED_DISK = 6 * GIB  # model, optimiser checkpoints, images
NEEDED_MEMORY = {"full fine-tuning (lora.enabled=false)": 5 * GIB, "LoRA": 3 * GIB}
DOCKER = "Docker engine"
PACKAGES = ("torch", "transformers", "ray", "docker", "gymnasium", "peft")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``required`` ones must be ok for a run."""

    name: str
    ok: bool
    detail: str
    required: bool = True


def examine() -> list[Finding]:
    """Look at everything a run needs; starts and installs nothing."""
    return [
        _python(),
        *_packages(),
        _cores(),
        _memory(),
        _disk(),
        _docker(),
        *_images(),
        _model(),
        _gpu(),
    ]


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Finding("Python", sys.version_info >= (3, 11), f"{version} (3.11 or newer is needed)")


def _packages() -> list[Finding]:
    findings = []
    for name in PACKAGES:
        try:
            findings.append(Finding(name, True, metadata.version(name)))
        except metadata.PackageNotFoundError:
            findings.append(Finding(name, False, "missing; run: scripts/setup"))
    return findings


def _cores() -> Finding:
    cores = len(os.sched_getaffinity(0))
    detail = f"{cores} cores; the default recipes are sized for 2"
    if "amx_bf16" in Path("/proc/cpuinfo").read_text().split():
        detail += "; it has AMX: trainer.products=bfloat16 saves about a third of a step"
    return Finding("CPU", True, detail)


def available_memory() -> int:
    """Return bytes of memory that a new process could use."""
    return _meminfo("MemAvailable")


def total_memory() -> int:
    """Return bytes of memory that this machine has."""
    return _meminfo("MemTotal")


def _meminfo(name: str) -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def _memory() -> Finding:
    free = available_memory()
    fits = [name for name, needed in NEEDED_MEMORY.items() if free >= needed]
    detail = (
        f"{free / GIB:.1f} GiB available; a 135M model fits with: {', '.join(fits) or 'nothing'}"
    )
    return Finding("memory", bool(fits), detail)


def _disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    detail = f"{free / GIB:.1f} GiB free here, {NEEDED_DISK / GIB:.0f} GiB needed"
    return Finding("disk", free >= NEEDED_DISK, detail)


def _docker() -> Finding:
    from envs.sandbox.engine import connect

    try:
        api = connect(timeout_s=10.0)
    except MissingDependency as error:
        return Finding(DOCKER, False, str(error))
    version = str(api.version().get("Version", "unknown"))
    api.close()
    return Finding(DOCKER, True, version)


def _images() -> list[Finding]:
    from envs import images
    from envs.sandbox.engine import has_image

    findings = []
    for family in images.families():
        reference = images.reference(family)
        try:
            there = has_image(reference)
        except MissingDependency:  # said by its own line
            return []
        remedy = f"not built; a run builds it, or: python -m envs.images build {family}"
        findings.append(Finding(f"image {family}", there, reference if there else remedy, False))
    return findings


def _model() -> Finding:
    from serving.models import cache_dir

    there = (cache_dir() / "smollm2-135m" / "config.json").exists()
    detail = "in the cache" if there else "a run fetches it (about 90 MB)"
    return Finding("model smollm2-135m", there, detail, False)


def gpu_memory() -> int | None:
    """Return bytes of memory of this machine's first GPU; None without one."""
    import torch

    if not torch.cuda.is_available():
        return None
    return int(torch.cuda.get_device_properties(0).total_memory)


def _gpu() -> Finding:
    if util.find_spec("torch") is None:
        return Finding("GPU", False, "unknown without torch", False)
    import torch

    size = gpu_memory()
    if size is None:
        return Finding("GPU", False, "none; the embedded engine and trainer run on the CPU", False)
    count, name = torch.cuda.device_count(), torch.cuda.get_device_name(0)
    return Finding("GPU", True, f"{count} x {name}, {size / GIB:.0f} GiB each", False)


def gpu_recipes() -> list[tuple[int, float, str]]:
    """Return ``(GPUs, GiB each, name)`` of every recipe for GPUs, the largest first."""
    import yaml

    from rl.config import RECIPES

    found = []
    for path in RECIPES.glob("*.yaml"):
        recipe = yaml.safe_load(path.read_text()) or {}
        gpus = recipe.get("gpus", {})
        if "memory_gib" in gpus and "ray" not in recipe:
            parts = ("actor", "prm") if gpus.get("shared") else ("actor", "rollout", "prm")
            count = sum(gpus.get(part, 0) for part in parts)
            found.append((count, float(gpus["memory_gib"]), path.stem))
    return sorted(found, key=lambda row: (-row[0], -row[1], row[2]))


def fitting_recipe(count: int, gib: float) -> str:
    """Return the largest recipe for so many GPUs of that memory; "" where there is none."""
    fits = (name for wanted, size, name in gpu_recipes() if wanted <= count and size <= gib + 0.5)
    return next(fits, "")


def _proposal() -> list[str]:
    """Return the line on GPUs, if there are any."""
    if util.find_spec("torch") is None or (size := gpu_memory()) is None:
        return []
    import torch

    name = fitting_recipe(torch.cuda.device_count(), size / GIB)
    if not name:
        return ["no recipe is small enough for its GPU: it can train on the CPU"]
    return [f"its GPUs fit: python -m rl.train env=terminal recipe={name}  (docs/learner.md)"]


def main() -> int:
    """Print the findings and what to run."""
    if {*sys.argv[1:]} & {"-h", "--help"}:
        sys.stdout.write(f"{(__doc__ or '').strip()}\n")
        return 0
    findings = examine()
    for finding in findings:
        mark = "ok     " if finding.ok else ("MISSING" if finding.required else "absent ")
        sys.stdout.write(f"{mark}  {finding.name}: {finding.detail}\n")
    missing = {finding.name for finding in findings if finding.required and not finding.ok}
    sys.stdout.write("\n" + "\n".join(advice(missing)) + "\n")
    return 3 if missing else 0


def advice(missing: Collection[str]) -> list[str]:
    """Return what to run on a machine that lacks something.

    Args:
        missing: names of the required findings that are not ok.
    """
    from envs import registry

    lora = available_memory() < NEEDED_MEMORY["full fine-tuning (lora.enabled=false)"]
    extra = " lora.enabled=true optim.lr=1e-4" if lora else ""
    docker_only = {*missing} == {DOCKER}
    able = [e.name for e in registry.ENTRIES if not (docker_only and e.image)]
    if missing and not docker_only:
        return ["mend what is MISSING, then: python -m rl.train env=terminal recipe=smoke"]
    lines = [
        f"{'this machine can run: ' if name == able[0] else ' ' * 22}"
        f"python -m rl.train env={name}{extra}"
        for name in able
    ]
    if docker_only:
        shut = ", ".join(f"env={e.name}" for e in registry.ENTRIES if e.image)
        return [f"without Docker there is no {shut}; the others work", *lines]
    return [
        *lines,
        *_proposal(),
        "first a look in minutes: python -m rl.train env=terminal recipe=smoke",
    ]


if __name__ == "__main__":
    sys.exit(main())
