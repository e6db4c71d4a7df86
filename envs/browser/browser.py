"""Chromium in a sandbox, reached over its DevTools protocol; it opens sessions.

One browser serves many sessions, one after another or at once; each is a profile of its own.
"""

import time
from typing import TYPE_CHECKING

from envs.browser import driver
from envs.browser.tunnel import Tunnel
from envs.errors import SandboxError, SandboxLost, SetupError
from envs.sandbox.protocol import Sandbox

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import CDPSession

FOLDER = "/tmp/.browser"
START_S = 90.0
CONNECT_S = 60.0
ANSWER_S = 15.0
FLAGS = (
    "--headless=new", "--remote-debugging-port=0", f"--user-data-dir={FOLDER}/profile",
    "--no-sandbox",  # the container is the sandbox: it grants no capability that theirs needs
    "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-default-apps",
    "--disable-breakpad", "--no-first-run", "--no-default-browser-check", "--mute-audio",
    "--disable-quic", "--dns-prefetch-disable", "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp", "--force-color-profile=srgb",
    "--font-render-hinting=none", "--hide-scrollbars",
    "--enable-blink-features=ComputedAccessibilityInfo",
    "--disable-features=IsolateOrigins,site-per-process,Translate,MediaRouter,OptimizationHints,"
    "AutofillServerCommunication,PasswordManagerOnboarding,PreloadTopChromeWebUI",
)  # fmt: skip
_START = f"""
mkdir -p {FOLDER}/profile
setsid chromium "$@" about:blank </dev/null >{FOLDER}/log 2>&1 &
pid=$!
until [ -s {FOLDER}/profile/DevToolsActivePort ]; do
  kill -0 $pid 2>/dev/null || {{ tail -c 600 {FOLDER}/log; exit 1; }}
  sleep 0.02
done
cat {FOLDER}/profile/DevToolsActivePort
"""


class BrowserLost(SandboxLost):
    """Chromium ended or does not answer; the world failed, not the agent."""


class Browser:
    """A running Chromium.

    Args:
        sandbox: of image ``gui``; stays its owner's.

    Raises:
        SetupError: Chromium does not start.
        SandboxLost: the sandbox is gone.
        MissingDependency: Playwright is not installed.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.driver = driver.shared()
        self.created = time.monotonic()
        self.num_sessions = 0
        made = sandbox.exec(
            ["/bin/sh", "-c", _START, "browser", *FLAGS], timeout_s=START_S, cwd="/"
        )
        try:
            port, path = made.output.split()
            self._tunnel = Tunnel(sandbox.id, int(port))
        except ValueError:
            said = made.output.strip()[-400:]
            raise SetupError(f"the browser does not start: {said}") from None
        try:
            self.playwright: PlaywrightBrowser = self.driver.run(
                self.driver.playwright.chromium.connect_over_cdp(
                    f"ws://127.0.0.1:{self._tunnel.port}{path}", timeout=CONNECT_S * 1000
                ),
                CONNECT_S,
            )
            self.protocol: CDPSession = self.driver.run(
                self.playwright.new_browser_cdp_session(), CONNECT_S
            )
        except Exception as error:
            self._tunnel.close()
            raise BrowserLost(f"{sandbox.id}: the browser takes no connection: {error}") from error

    def is_well(self) -> bool:
        """Ask it for a sign of life."""
        if not self.playwright.is_connected():
            return False
        try:
            self.driver.run(self.protocol.send("Browser.getVersion"), ANSWER_S)
            self.sandbox.heartbeat()
        except Exception:  # any answer but the right one
            return False
        return True

    def clean(self) -> None:
        """Remove what sessions wrote outside their profiles. Raises ``SandboxError``."""
        done = self.sandbox.exec(
            ["sh", "-c", "rm -rf /workspace/* /workspace/.[!.]* /home/agent/Downloads"], cwd="/"
        )
        if done.exit_code != 0:
            raise SandboxError(f"{self.sandbox.id}: downloads stay: {done.output[-200:]}")

    def close(self) -> None:
        """Let go of it; the sandbox's reset ends it. Idempotent; never raises."""
        self._tunnel.close()
