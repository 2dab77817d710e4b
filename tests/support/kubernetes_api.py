"""As much of the API of Kubernetes as Prometheus asks for: the pods of a namespace, and a watch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

BOOKMARK = {
    "type": "BOOKMARK",
    "object": {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": "2",
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    },
}


def running_pod(template: dict[str, Any], name: str, namespace: str) -> dict[str, Any]:
    """A pod made of a workload's template, as the kubelet reports it; its address is loopback's."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": name,
            "resourceVersion": "1",
            "labels": template["metadata"].get("labels", {}),
        },
        "spec": {**template["spec"], "nodeName": "node"},
        "status": {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "podIPs": [{"ip": "127.0.0.1"}],
            "hostIP": "127.0.0.1",
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@asynccontextmanager
async def api_with(pods: list[dict[str, Any]]) -> AsyncIterator[str]:
    """Gives the URL of an API server that knows these pods."""
    ending = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") not in ("true", "1"):
            versions = {"metadata": {"resourceVersion": "1"}}
            return web.json_response(
                {"kind": "PodList", "apiVersion": "v1", **versions, "items": pods}
            )
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        if request.query.get("sendInitialEvents") == "true":
            added = [{"type": "ADDED", "object": pod} for pod in pods]
            for event in (*added, BOOKMARK):
                await stream.write(json.dumps(event).encode() + b"\n")
        await ending.wait()
        return stream

    app = web.Application()
    app.router.add_get("/api/v1/pods", answer)
    app.router.add_get("/api/v1/namespaces/{namespace}/pods", answer)
    async with TestServer(app) as server:
        try:
            yield str(server.make_url("")).rstrip("/")
        finally:
            ending.set()
