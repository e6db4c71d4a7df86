"""A live run's parts, put together: gateway, judge, trainer, and what its owner is told."""

import json
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rl import assembly
from rl.errors import ConfigError
from rl.live.backlog import HINTED, SCORED
from rl.settings import RunConfig

log = logging.getLogger(__name__)

GATEWAY = "gateway"  # folder of a run in which the gateway keeps its turns
_CUT = {"secrets": "keys and passwords", "personal": "secrets and personal data"}
ADDRESS = "address.json"  # file of a run: where it was served, so that a resume is found there


@dataclass(frozen=True)
class Keys:
    """Who may talk, and who may teach.

    Attributes:
        others: further keys → their users' names.
    """

    api: str
    admin: str
    others: Mapping[str, str]


def keys(config: RunConfig) -> Keys:
    """Return the keys of the environment, else those kept for this user, and the file's.

    Raises:
        ConfigError: one cannot be used or kept.
    """
    from serving.__main__ import UsageError, api_key
    from serving.keys import read_keys

    try:
        return Keys(
            api_key("CLAWGYM_API_KEY", "api_key"),
            api_key("CLAWGYM_ADMIN_KEY", "admin_key"),
            read_keys(Path(config.chat.keys)) if config.chat.keys else {},
        )
    except UsageError as error:
        raise ConfigError(str(error)) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"chat.keys={config.chat.keys}: {error}") from None


async def run(config: RunConfig, folder: Path, keys: Keys) -> None:
    """Serve and learn until cancelled.

    Raises:
        RunError, StoreError, ModelError: with the first cause.
    """
    from rl.fleet import RayFleet
    from rl.judge.model import Endpoint
    from rl.judge.pipeline import build
    from rl.live.loop import LiveLoop, summary
    from rl.live.teacher import ChatTeacher
    from rl.metrics import Metrics
    from rl.store import Store
    from rl.workers import Serving
    from serving.models import resolve
    from serving.renderer import Renderer

    # replies go before learning: Ray would start both equally nice, the trainer makes itself nicer
    os.environ.setdefault("RAY_worker_niceness", "0")
    journal = folder / GATEWAY
    serving = Serving(
        keys.api,
        keys.admin,
        config.chat.host,
        _port(config, folder),
        keys.others,
        journal,
        held=True,
        redact=config.chat.redact,
        keep_days=config.chat.keep_days,
    )
    fleet = RayFleet(config, f"{folder.name}-{os.getpid()}", folder, serving, num_workers=0)
    metrics = Metrics(folder)
    try:
        with Store(folder) as store:
            async with fleet:
                url = fleet.address.base_url
                (folder / ADDRESS).write_text(json.dumps({"base_url": url}) + "\n")
                judge = build(
                    config.judge,
                    policy=Endpoint(f"{url}/v1", keys.api, config.model),
                    judge_cut=config.algorithm.train_truncated,
                )
                await judge.open()
                teacher = ChatTeacher(
                    assembly.teacher(config, fleet), Renderer(resolve(config.model))
                )
                loop = LiveLoop(
                    config, folder, fleet, store, metrics, journal, judge, teacher,
                    ready=lambda: log.info("%s", welcome(url, config.model, shown_key(keys))),
                )  # fmt: skip
                try:
                    await loop.run()
                finally:
                    lines = summary(loop.counts, loop.assembly.skipped)
                    log.info("%s", ", ".join(lines) or "no turns")
                    await judge.close()
    finally:
        metrics.close()


def describe(config: RunConfig) -> str:
    """Return what will happen, in lines for people.

    Raises:
        ConfigError: a method that learns nothing from live chat.
    """
    methods = sorted({*SCORED, *HINTED})
    if config.algorithm.name not in methods:
        raise ConfigError(
            f"algorithm={config.algorithm.name} learns nothing from live chat: choose one of "
            f"{', '.join(methods)}, or chat.users=simulated"
        )
    chat, judge = config.chat, config.judge
    method = f"LoRA r={config.lora.rank}" if config.lora.enabled else "full fine-tuning"
    lines = [
        f"live chat with {config.model}, {method}, {config.algorithm.name}, lr {config.optim.lr:g}",
        f"judged by {', then '.join(dict.fromkeys(('feedback', 'rules', judge.model)))}; a reply "
        "is judged when the "
        f"conversation goes on, or after {chat.idle_s:g} s of silence",
        f"a step after {chat.batch} turns that teach something, or {chat.max_wait_s:g} s",
        "kept: "
        + ("everything that is said" if chat.redact == "none" else f"without {_CUT[chat.redact]}")
        + (f", for {chat.keep_days:g} days" if chat.keep_days else ", until it is removed"),
    ]
    return "\n".join("  " + line for line in lines)


def shown_key(keys: Keys) -> str:
    """Return the key as people may see it in a log: where it is kept, unless they chose it."""
    if "CLAWGYM_API_KEY" in os.environ:
        return "$CLAWGYM_API_KEY"
    from serving.__main__ import KEY_FOLDER

    return f"$(cat {KEY_FOLDER / 'api_key'})"


def welcome(url: str, model: str, key: str) -> str:
    """Return ready-to-paste ways to talk to a policy.

    Args:
        url: base URL without ``/v1``.
        model: its name.
        key: a shell word that gives the API key.
    """
    provider = {
        "models": {
            "providers": {
                "clawgym": {
                    "baseUrl": f"{url}/v1",
                    "apiKey": "${CLAWGYM_API_KEY}",
                    "api": "openai-completions",
                    "models": [{"id": model, "name": model}],
                }
            }
        }
    }
    request = json.dumps({"model": model, "messages": [{"role": "user", "content": "Hello"}]})
    return f"""
  ready. Base URL: {url}/v1    key: {key}

  in a browser:    {url}/          (it asks for the key)
  openai SDK:      export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY={key}
  curl:            curl {url}/v1/chat/completions -H "Authorization: Bearer {key}" \\
                     -H "Content-Type: application/json" \\
                     -d '{request}'
  OpenClaw:        export CLAWGYM_API_KEY={key}, and in openclaw.json:
{json.dumps(provider, indent=2)}

  Every reply that is followed by anything (an answer, a thumb, a correction, silence) is judged,
  and learned weights go live by themselves. Stop with Ctrl-C; nothing is lost.
"""


def _port(config: RunConfig, folder: Path) -> int:
    """Return the port to serve at: the one named, else the one this run had before."""
    if config.chat.port or config.resume is None:
        return config.chat.port
    try:
        url = json.loads((folder / ADDRESS).read_text())["base_url"]
        port = int(str(url).rpartition(":")[2])
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((config.chat.host, port))
    except (OSError, ValueError, KeyError) as error:
        log.warning("this run's old address cannot be used (%s): it gets another one", error)
        return 0
    return port
