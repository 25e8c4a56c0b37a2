"""Writes the JSON Schema of the Helm chart's values, by which Helm refuses what is misspelled or of the wrong kind.

The settings are those of the server, except those that the chart makes from other values, or that belong in a Secret.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from interlock.service.settings import Settings

FILE = Path(__file__).parents[1] / "deploy" / "helm" / "interlock" / "values.schema.json"
Json: TypeAlias = dict[str, Any]
# Where the server listens and stores is the chart's to say; a ConfigMap shows what it holds to many.
NOT_SETTABLE = frozenset(
    {
        *("host", "port", "uds", "tls_cert", "tls_key", "tls_client_ca", "metrics_address"),
        *("store", "policy", "secret", "oidc_client_secret", "oidc_providers"),
    }
)
_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}
_ANYTHING: Json = {"type": "object"}


def main() -> None:
    """Write the file."""
    FILE.write_text(render())
    print(f"wrote {FILE.relative_to(Path.cwd()) if FILE.is_relative_to(Path.cwd()) else FILE}")


def render() -> str:
    """The whole file."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the Interlock chart. Written by `make docs`.",
        **_only({"global": _ANYTHING, **_server(), **_pods(), **_network()}),
    }
    return json.dumps(schema, indent=2) + "\n"


def _server() -> Json:
    """What the server does, and where it keeps things."""
    url = {"type": "string", "pattern": "^(postgres(ql)?://.+)?$"}
    return {
        "replicas": {"type": "integer", "minimum": 0},
        "postgresql": _only({"url": url, "passwordSecret": _secret()}),
        "secret": _secret(),
        "storage": _only({"size": _TEXT, "className": _TEXT, "existingClaim": _TEXT}),
        "settings": _only(_settings()),
        "policy": _TEXT,
        "env": _list({"type": "object", "required": ["name"]}),
    }


def _pods() -> Json:
    """What its pods are made of, and where they run."""
    pulls = _choice("Always", "IfNotPresent", "Never")
    return {
        "image": _only({"repository": _TEXT, "tag": _TEXT, "pullPolicy": pulls}),
        "imagePullSecrets": _list(_only({"name": _TEXT})),
        "resources": _ANYTHING,
        "podAnnotations": _TEXTS,
        "nodeSelector": _TEXTS,
        "tolerations": _list(_ANYTHING),
        "affinity": _ANYTHING,
    }


def _network() -> Json:
    """How others reach it."""
    port = {"type": "integer", "minimum": 1, "maximum": 65535}
    kinds = _choice("ClusterIP", "NodePort", "LoadBalancer")
    names = dict.fromkeys(("className", "host", "tlsSecret"), _TEXT)
    return {
        "service": _only({"type": kinds, "port": port, "annotations": _TEXTS}),
        "ingress": _only({"enabled": {"type": "boolean"}, **names, "annotations": _TEXTS}),
    }


def _settings() -> Json:
    """Each setting with its meaning and its type; an unset one has the server's default."""
    (known,) = msgspec.json.schema_components((Settings,))[1].values()
    properties: Json = known["properties"]
    return {
        name: {key: found[key] for key in ("description", "type")}
        for name, found in properties.items()
        if name not in NOT_SETTABLE
    }


def _only(properties: Json) -> Json:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _choice(*words: str) -> Json:
    return {"enum": list(words)}


def _secret() -> Json:
    return _only({"name": _TEXT, "key": _TEXT})


if __name__ == "__main__":
    main()
