"""What the gateway tells Prometheus: requests by route and status, latencies, the counters."""

import functools
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric

from .gateway import Gateway

SECONDS = (0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)


class Telemetry:
    """Counts requests; ``middleware()`` and ``metrics`` belong into the application."""

    def __init__(self, gateway: Gateway) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "clawgym_requests", "Requests answered", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "clawgym_request_seconds",
            "From a request to its last byte",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._registry.register(_Stats(gateway))
        # routes and statuses are few: found once, not by lock and label each time
        self._counter = functools.cache(self._requests.labels)
        self._histogram = functools.cache(self._seconds.labels)

    def middleware(self) -> Middleware:
        """Return what counts every request."""

        @web.middleware
        async def count(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._count(request, handler)

        return count

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer a scrape."""
        return web.Response(
            body=generate_latest(self._registry),
            headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
        )

    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = resource.canonical if resource else "unknown"
        begun = time.perf_counter()
        status = "cancelled"  # the client has left
        try:
            response = await handler(request)
            status = str(response.status)
            return response
        finally:
            self._counter(route, status).inc()
            self._histogram(route).observe(time.perf_counter() - begun)


class _Stats:
    """The gateway's numbers at the time of a scrape."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge per number."""
        for name, value in self._gateway.stats().items():
            if isinstance(value, bool | int | float):
                yield GaugeMetricFamily(f"clawgym_{name}", name.replace("_", " "), float(value))
            elif isinstance(value, Mapping):
                yield _family(name, value)


def _family(name: str, values: Mapping[str, Any]) -> Metric:
    family = GaugeMetricFamily(f"clawgym_{name}", name.replace("_", " "), labels=["kind"])
    for kind, value in values.items():
        if isinstance(value, bool | int | float):
            family.add_metric([re.sub(r"[^\w ().-]", " ", kind)], float(value))
    return family
