"""What runs inside Ray actors: rollout workers and the policy's host. The trainer's:
``rl.trainerhost``.

Plain classes that tests use without Ray; ``rl.fleet`` wraps them. Each owns its resources and gives
them back in ``close``.
"""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agents import registry as agent_registry
from agents.blackbox import Gateway, play_command
from agents.episode import Assignment, EpisodeLimits, play
from agents.protocol import Policy
from agents.scripted import ScriptedPolicy
from agents.types import Episode
from rl.settings import RunConfig
from rl.space import writing
from rl.trainerhost import cores

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class PolicyAddress:
    """Where the policy answers."""

    base_url: str
    api_key: str


@dataclass(frozen=True)
class Serving:
    """How a run's policy is served beyond its engine.

    Attributes:
        api_key: clients must show it.
        admin_key: opens the learner's routes; "": the API key does.
        host, port: port 0 picks a free one; a restart passes the old one on.
        held: requests wait for ``RayFleet.release``: nobody is answered by weights that a resume is
            about to replace.
        other_keys: further keys → their users' names.
        journal: folder in which turns stay, each on disk before its reply ends; None: in memory.
        redact: what is cut out of turns before they are kept, see ``serving.redaction``.
        keep_days: turns older than this are removed; 0 keeps them.
    """

    api_key: str
    admin_key: str = ""
    host: str = LOOPBACK
    port: int = 0
    other_keys: Mapping[str, str] = field(default_factory=dict)
    journal: Path | None = None
    held: bool = False
    redact: Literal["none", "secrets", "personal"] = "none"
    keep_days: float = 0.0


class RolloutWorker:
    """Plays episodes in sandboxes of its own against the shared policy server.

    Args:
        config: of the run.
        run_id, worker_id: labels of its sandboxes.
        address: of the policy server.
    """

    def __init__(
        self, config: RunConfig, run_id: str, worker_id: str, address: PolicyAddress
    ) -> None:
        from envs.sandbox.pool import SandboxPool
        from serving.client import PolicyClient

        self.config = config
        self.worker_id = worker_id
        self.slots = config.rollout.episodes_per_worker
        self.pool = SandboxPool(run_id=run_id, worker=worker_id, max_idle=self.slots)
        self.address = address
        self.client = PolicyClient(address.base_url, address.api_key)
        self.agent = agent_registry.make(
            config.env, config.agent.reply_format, config.agent.finish == "submit"
        )
        self.limits = EpisodeLimits(config.agent.max_parse_errors, config.agent.time_limit_s)
        self._executor = ThreadPoolExecutor(self.slots + 2, thread_name_prefix=worker_id)
        self._tokens: Any = None

    async def play(self, assignment: Assignment) -> Episode:
        """Play one episode with the policy. Never raises for world or policy failures."""
        return await self._play(assignment, self.client)

    async def demonstrate(self, assignment: Assignment) -> Episode:
        """Play the task's oracle in the tokens of the model."""
        env = self._env(assignment)
        commands = assignment.task.data.get("demo") or env.oracle(assignment.task)
        policy = ScriptedPolicy(list(commands), self._renderer())
        return await self._play(assignment, policy, env)

    async def ping(self) -> str:
        """Return the worker's name: it is alive."""
        return self.worker_id

    async def close(self) -> None:
        """Remove every sandbox and close connections. Idempotent."""
        await asyncio.get_running_loop().run_in_executor(None, self.pool.close)
        await self.client.close()
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _env(self, assignment: Assignment) -> Any:
        from envs import registry

        return registry.make(
            self.config.env,
            tasks=[assignment.task],
            sandboxes=self.pool,
            finish=self.config.agent.finish,
        )

    async def _play(self, assignment: Assignment, policy: Policy, env: Any = None) -> Episode:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._executor)
        env = env or self._env(assignment)
        command = self.config.agent.command
        try:
            if command and policy is self.client:
                gateway = Gateway(self.address.base_url, self.address.api_key)
                return await play_command(env, command, gateway, assignment, self.limits)
            return await play(env, self.agent, policy, assignment, self.limits)
        finally:
            await loop.run_in_executor(None, env.close)

    def _renderer(self) -> Any:
        if self._tokens is None:
            from serving.models import resolve
            from serving.renderer import Renderer

            self._tokens = Renderer(resolve(self.config.model))
        return self._tokens


class PolicyHost:
    """Engine and gateway in one process.

    Args:
        config: of the run.
        serving: address and keys.
    """

    def __init__(self, config: RunConfig, serving: Serving) -> None:
        self.config, self.serving = config, serving
        self.base_url = ""
        self.engine: Any = None
        self.server: Any = None

    def start(self) -> str:
        """Load the model and serve; return the base URL.

        Raises:
            ModelError: the model cannot be found or run.
            PolicyUnavailable: the address cannot be bound.
        """
        from rl.precision import use_products
        from serving.engine import EngineOptions
        from serving.engines import build_engine
        from serving.models import resolve
        from serving.redaction import redactor
        from serving.renderer import Renderer
        from serving.server import PolicyServer, ServerOptions

        config, serving = self.config, self.serving
        folder = resolve(config.model)
        if config.engine.name == "torch":
            use_products(config.engine.products)
        options = EngineOptions(
            threads=config.engine.threads or cores(),
            max_slots=config.engine.max_slots,
            max_len=config.engine.context,
        )
        urls = {"sglang_url": ",".join(config.engine.urls)} if config.engine.urls else {}
        self.engine = build_engine(config.engine.name, folder, options, **urls)
        if serving.held:
            self.engine.pause()
        with writing(serving.journal or Path.cwd()):
            self.server = PolicyServer(
                self.engine,
                Renderer(folder),
                api_key=serving.api_key,
                host=_host(config, serving),
                port=serving.port,
                model_name=config.model,
                options=ServerOptions(
                    admin_key=serving.admin_key or None,
                    other_keys=serving.other_keys,
                    sessions=serving.journal,
                    durable=serving.journal is not None,
                    redact=redactor(serving.redact),
                    keep_days=serving.keep_days,
                ),
            )
        self.base_url = self.server.start()
        return self.base_url

    def address(self) -> str:
        """Return the base URL."""
        return self.base_url

    def close(self) -> None:
        """Stop serving. Idempotent."""
        if self.server is not None:
            self.server.stop()
        if self.engine is not None:
            self.engine.close()


def _host(config: RunConfig, serving: Serving) -> str:
    """Return the address to serve at: on a cluster the node's own, unless one was named."""
    if config.ray.address is None or serving.host != LOOPBACK:
        return serving.host
    import ray

    return str(ray.util.get_node_ip_address())
