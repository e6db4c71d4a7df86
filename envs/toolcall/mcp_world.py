"""A world whose tools are an MCP server's, and whose state is files of its sandbox.

Task data: ``world: "mcp"``, ``server`` (arguments of ``McpServer``), ``files`` (path → text,
written before the server starts), ``watched`` (paths that make up the state; a missing one is
None), ``policy``, and ``image`` (family of the sandbox, ``mcp`` if missing). Worlds of other tasks
are built as ever, so both kinds may be in one set.

Example:
    >>> env = ToolCallEnv(tasks, worlds=McpWorlds(pool))  # doctest: +SKIP
"""

from collections.abc import Mapping, Sequence
from typing import Any

from envs.errors import SandboxFileError, SandboxLimitError, TaskError
from envs.sandbox.protocol import Sandbox, SandboxProvider, SandboxSpec
from envs.toolcall.mcp import McpServer, McpTools
from envs.toolcall.tools import Tool
from envs.toolcall.world import World
from envs.toolcall.worlds import table

MAX_FILE_BYTES = 1 << 20
DISK_BYTES = 128 << 20


class McpWorlds:
    """Builds worlds for ``ToolCallEnv``.

    Args:
        sandboxes: where sandboxes come from; not closed.
    """

    def __init__(self, sandboxes: SandboxProvider) -> None:
        self._sandboxes = sandboxes

    def __call__(self, data: Mapping[str, Any]) -> World:
        """Return a fresh world. Raises ``TaskError``, ``EnvError``."""
        if data.get("world") != "mcp":
            return table.make(data)
        try:
            server = McpServer(**{**data["server"], "argv": tuple(data["server"].get("argv", ()))})
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise TaskError(f"no mcp world: {error!r}") from error
        spec = SandboxSpec(str(data.get("image", "mcp")), disk_bytes=DISK_BYTES)
        sandbox = self._sandboxes.acquire(spec)
        try:
            for path, text in data.get("files", {}).items():
                sandbox.write_file(path, text.encode())
            return McpWorld(self._sandboxes, sandbox, server, data)
        except BaseException:
            self._sandboxes.release(sandbox)
            raise


class McpWorld:
    """See the module and ``envs.toolcall.world.World``."""

    violations: Sequence[str] = ()

    def __init__(
        self, sandboxes: SandboxProvider, sandbox: Sandbox, server: McpServer,
        data: Mapping[str, Any],
    ) -> None:  # fmt: skip
        self._sandboxes = sandboxes
        self._sandbox: Sandbox | None = sandbox
        self._watched = tuple(data.get("watched", ()))
        self.policy = str(data.get("policy", ""))
        self._server = McpTools(sandbox, server)
        self.tools: Mapping[str, Tool] = self._server.tools

    @property
    def faults(self) -> Mapping[str, int]:
        """How often the server did what wrong."""
        return dict(self._server.faults)

    def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Carry out a call. Raises ``ToolError``, ``SandboxLost``."""
        return self._server.call(name, arguments)

    def state(self) -> Mapping[str, object]:
        """Return the watched files' bytes. Raises ``SandboxLost``."""
        assert self._sandbox is not None
        return {path: _content(self._sandbox, path) for path in self._watched}

    def close(self) -> None:
        """Give the sandbox back. Idempotent."""
        if self._sandbox is not None:
            self._server.close()
            self._sandboxes.release(self._sandbox)
        self._sandbox = None


def _content(sandbox: Sandbox, path: str) -> object:
    try:
        return sandbox.read_file(path, max_bytes=MAX_FILE_BYTES)
    except SandboxFileError:
        return None
    except SandboxLimitError:
        return f"more than {MAX_FILE_BYTES} bytes"
