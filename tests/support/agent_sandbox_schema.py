"""What kubernetes-sigs/agent-sandbox publishes of its objects, as JSON schemas.

Written by hand from its types (api/v1beta1 and extensions/api/v1beta1, Apache-2.0): names of fields, types, what is
required, and the values of enumerations. Of a pod's own spec only its containers are described. An unknown field is
refused, as the API server does with fieldValidation=Strict.
"""

from __future__ import annotations

from typing import Any

import jsonschema

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"}


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _one_of(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


_NAME = {"type": "string", "pattern": r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", "maxLength": 253}
_LABEL = {"type": "string", "pattern": r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", "maxLength": 63}
_METADATA = _object(
    ("name",),
    name=_NAME,
    namespace=_NAME,
    labels={"type": "object", "additionalProperties": _LABEL},
    annotations=_TEXTS,
    uid=_TEXT,
    resourceVersion=_TEXT,
    creationTimestamp=_TIME,
)
_REFERENCE = _object(("name",), name=_NAME)
_CONDITION = _object(
    ("lastTransitionTime", "message", "reason", "status", "type"),
    type=_TEXT,
    status=_one_of("True", "False", "Unknown"),
    reason={"type": "string", "pattern": r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "maxLength": 1024},
    message={"type": "string", "maxLength": 32768},
    lastTransitionTime=_TIME,
    observedGeneration={"type": "integer", "minimum": 0},
)
_POD_METADATA = _object(labels=_TEXTS, annotations=_TEXTS)
_POD_SPEC = {
    "type": "object",
    "required": ["containers"],
    "properties": {
        "containers": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name", "image"]}},
        "hostUsers": {"type": "boolean"},
        "automountServiceAccountToken": {"type": "boolean"},
        "runtimeClassName": _TEXT,
    },
}
_BLUEPRINT = {
    "podTemplate": _object(("spec",), spec=_POD_SPEC, metadata=_POD_METADATA),
    "volumeClaimTemplates": {"type": "array", "items": {"type": "object", "required": ["spec"]}},
    "service": {"type": "boolean"},
}
_CONDITIONS = {"type": "array", "items": _CONDITION}
_IPS = {"type": "array", "items": _TEXT}

SPECS: dict[str, dict[str, Any]] = {
    "SandboxClaim": _object(
        ("warmPoolRef",),
        warmPoolRef=_REFERENCE,
        lifecycle=_object(
            shutdownTime=_TIME,
            ttlSecondsAfterFinished={"type": "integer", "minimum": 0},
            shutdownPolicy=_one_of("Delete", "DeleteForeground", "Retain"),
        ),
        additionalPodMetadata=_POD_METADATA,
        safeToEvict=_one_of("on-completion", "true", "false"),
        env={"type": "array", "items": _object(("name", "value"), name=_TEXT, value=_TEXT, containerName=_TEXT)},
    ),
    "SandboxWarmPool": _object(
        ("sandboxTemplateRef",),
        replicas={"type": "integer", "minimum": 0},
        sandboxTemplateRef=_REFERENCE,
        updateStrategy=_object(type=_one_of("Recreate", "OnReplenish")),
    ),
    "SandboxTemplate": _object(
        ("podTemplate",),
        **_BLUEPRINT,
        networkPolicy=_object(ingress={"type": "array"}, egress={"type": "array"}),
        networkPolicyManagement=_one_of("Managed", "Unmanaged"),
        envVarsInjectionPolicy=_one_of("Allowed", "Overrides", "Disallowed"),
    ),
    "Sandbox": _object(
        ("podTemplate",),
        **_BLUEPRINT,
        shutdownTime=_TIME,
        shutdownPolicy=_one_of("Delete", "Retain"),
        operatingMode=_one_of("Running", "Suspended"),
    ),
}
STATUSES: dict[str, dict[str, Any]] = {
    "SandboxClaim": _object(conditions=_CONDITIONS, sandbox=_object(name=_TEXT, podIPs=_IPS)),
    "SandboxWarmPool": _object(replicas={"type": "integer"}, readyReplicas={"type": "integer"}, selector=_TEXT),
    "SandboxTemplate": _object(),
    "Sandbox": _object(
        serviceFQDN=_TEXT, service=_TEXT, conditions=_CONDITIONS, selector=_TEXT, podIPs=_IPS, nodeName=_TEXT
    ),
}


def check_object(document: dict[str, Any]) -> None:
    """Raises: jsonschema.ValidationError for an object that the published schema does not allow."""
    kind = document["kind"]
    group = "agents.x-k8s.io" if kind == "Sandbox" else "extensions.agents.x-k8s.io"
    schema = _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": f"{group}/v1beta1"},
        kind={"const": kind},
        metadata=_METADATA,
        spec=SPECS[kind],
        status=STATUSES[kind],
    )
    jsonschema.validate(document, schema)
