"""Which settings of GPUs, ranks, engine and number formats go together."""

from rl.errors import ConfigError
from rl.settings import RunConfig


def consistent(config: RunConfig) -> None:
    """Refuse shares that contradict each other.

    Raises:
        ConfigError: one line: the value and the remedy.
    """
    for wrong, said in (*_gpus(config), *_formats(config)):
        if wrong:
            raise ConfigError(said)


def _gpus(config: RunConfig) -> list[tuple[bool, str]]:
    gpus, engine = config.gpus, config.engine
    remote = config.judge.model.startswith(("http://", "https://"))
    return [
        (
            bool(gpus.actor) and config.num_ranks != gpus.actor,
            f"trainer.ranks={config.trainer.ranks} with gpus.actor={gpus.actor}: a GPU holds one "
            "rank; leave trainer.ranks out",
        ),
        (
            engine.name == "sglang" and not engine.urls,
            "engine=sglang needs engine.urls=[http://HOST:PORT]; scripts/sglang starts a server",
        ),
        (
            any(not url.startswith(("http://", "https://")) for url in engine.urls),
            f"engine.urls={list(engine.urls)}: each is http://HOST:PORT",
        ),
        (
            engine.name == "torch" and bool(engine.urls),
            "engine.urls is for engine=sglang: the embedded engine is no server of its own",
        ),
        (
            gpus.rollout > 0 and engine.name == "torch",
            f"gpus.rollout={gpus.rollout}: the embedded engine runs on the CPU; use engine=sglang",
        ),
        (
            gpus.rollout > 0 and len(engine.urls) > gpus.rollout,
            f"engine.urls names {len(engine.urls)} servers, gpus.rollout={gpus.rollout} GPUs",
        ),
        (
            gpus.prm > 0 and not remote,
            f"gpus.prm={gpus.prm}: judge.model={config.judge.model} needs no GPU; give the URL of "
            "the judge's server there",
        ),
        (
            gpus.shared and not (gpus.actor and gpus.actor == gpus.rollout),
            f"gpus.shared=true with gpus.actor={gpus.actor} and gpus.rollout={gpus.rollout}: the "
            "same GPUs are counted in both, so give the same number",
        ),
    ]


def _formats(config: RunConfig) -> list[tuple[bool, str]]:
    quantize, ranks = config.lora.quantize, config.num_ranks
    return [
        (
            quantize != "none" and not config.lora.enabled,
            f"lora.quantize={quantize} freezes the base: it needs lora.enabled=true",
        ),
        (
            quantize != "none" and ranks > 1,
            f"lora.quantize={quantize} is for one rank, there are {ranks}: a base that does not "
            "fit into one GPU is sharded by itself; leave lora.quantize out",
        ),
        (
            config.optim.name == "adamw8bit" and ranks > 1,
            f"optim.name=adamw8bit is for one rank, there are {ranks}: shards of the moments are "
            "small already; use optim.name=adamw",
        ),
    ]
