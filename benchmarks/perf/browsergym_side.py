"""BrowserGym as a child of ``python -m benchmarks.perf gui``, in its own environment.

    PEER_PYTHON -m benchmarks.perf.browsergym_side ENDPOINT PAGES

ENDPOINT is the DevTools address of a Chromium in a sandbox, the one that our side is measured in
too: what it would launch is answered by a connection to that. PAGES is the address of MiniWoB++'s
pages there. Reads JSON lines ``{"page", "waits", "steps"}`` and answers with the milliseconds of
each step and of the reset; ``waits`` false switches off its own fixed pauses (half a second before
each observation, a tenth before each move).
"""

import json
import os
import sys
import time
from typing import Any

ACTION = "mouse_click(150, 200)"


def main(endpoint: str, pages: str) -> None:
    """Answer until standard input ends."""
    os.environ["MINIWOB_URL"] = pages
    import browsergym.core  # type: ignore[import-not-found]
    import browsergym.miniwob  # type: ignore[import-not-found]  # noqa: F401
    import gymnasium
    from browsergym.core.action.highlevel import (  # type: ignore[import-not-found]
        HighLevelActionSet,
    )
    from playwright.sync_api import Browser, BrowserType

    connected: list[Browser] = []

    def launch(self: BrowserType, *_: Any, slow_mo: float | None = None, **__: Any) -> Browser:
        if not connected:  # environment and chat window share the one Chromium there is
            connected.append(self.connect_over_cdp(endpoint, slow_mo=slow_mo or 0))
        return connected[0]

    BrowserType.launch = launch  # type: ignore[method-assign]
    Browser.close = lambda self, **_: None  # type: ignore[method-assign]
    _say({"ready": True})
    for line in sys.stdin:
        asked = json.loads(line)
        actions = HighLevelActionSet(subsets=["coord"])
        options: dict[str, Any] = {"action_mapping": actions.to_python_code}
        if not asked["waits"]:
            options |= {"slow_mo": 0, "pre_observation_delay": 0.0}
        env = gymnasium.make(f"browsergym/miniwob.{asked['page']}", **options)
        begun = time.perf_counter()
        env.reset(seed=1)
        reset_ms = (time.perf_counter() - begun) * 1e3
        steps = []
        for _ in range(asked["steps"]):
            begun = time.perf_counter()
            seen, *_rest = env.step(ACTION)
            steps.append((time.perf_counter() - begun) * 1e3)
            assert not seen["last_action_error"], seen["last_action_error"]
        for context in connected[0].contexts:
            context.close()
        connected.clear()
        _say({"steps_ms": steps, "reset_ms": reset_ms})


def _say(answer: Any) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
