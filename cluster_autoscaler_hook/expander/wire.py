"""The protobuf messages Cluster Autoscaler sends, and only the fields we read.

Up to 1.33 it embeds `v1.Node` and `v1.Pod` as messages (nodeMap = 2, pod = 4), from 1.34 on it sends them
as serialized bytes (nodeBytesMap = 3, podBytes = 5); 1.34 sends both. On the wire a message and a byte
string are the same, so all four are declared as bytes here: one way of reading for every version, and a pod
that is repeated in each of a hundred options is the same byte string and can be parsed once.

Maps are declared as the repeated entries they are on the wire: a message read and written again then keeps
its order, so that equal pods stay equal byte strings. Unknown fields are skipped.

Field numbers: expander/grpcplugin/protos/expander.proto of Cluster Autoscaler, k8s.io/api/core/v1,
k8s.io/apimachinery/pkg/apis/meta/v1 and pkg/api/resource (generated.proto, v0.36). They never change:
Kubernetes stores objects in this form.
"""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = [
    "METHOD",
    "OPTIONS",
    "POD",
    "POD_BYTES",
    "SERVICE",
    "BestOptionsRequest",
    "BestOptionsResponse",
    "Node",
    "Option",
    "Pod",
]

SERVICE = "grpcplugin.Expander"
METHOD = "BestOptions"
# Fields of BestOptionsRequest and Option that `decode` finds without parsing what is in them.
OPTIONS = 1
POD, POD_BYTES = 4, 5

_PACKAGE = "surgekit.expander.wire"
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
}

# message -> field -> (number, type); a type in [] repeats.
_MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "BestOptionsRequest": {
        "options": (OPTIONS, "[Option]"),
        "nodeMap": (2, "[NodeEntry]"),
        "nodeBytesMap": (3, "[NodeEntry]"),
    },
    "BestOptionsResponse": {"options": (1, "[Option]")},
    "Option": {
        "nodeGroupId": (1, "string"),
        "nodeCount": (2, "int32"),
        "debug": (3, "string"),
        "pod": (POD, "[bytes]"),
        "podBytes": (POD_BYTES, "[bytes]"),
    },
    "NodeEntry": {"key": (1, "string"), "value": (2, "bytes")},
    "Pod": {"metadata": (1, "ObjectMeta"), "spec": (2, "PodSpec")},
    "ObjectMeta": {
        "namespace": (3, "string"),
        "labels": (11, "[Text]"),
    },
    "Text": {"key": (1, "string"), "value": (2, "string")},
    # Where a pod may run is not ours to judge, the caller has: nodeSelector, tolerations, nodeAffinity and
    # the rest are kept as they are, only to tell pods of different demands apart.
    "PodSpec": {
        "containers": (2, "[Container]"),
        "nodeSelector": (7, "[bytes]"),
        "affinity": (18, "Affinity"),
        "initContainers": (20, "[Container]"),
        "tolerations": (22, "[bytes]"),
        "overhead": (32, "[Amount]"),
        "topologySpreadConstraints": (33, "[bytes]"),
        "resources": (40, "Resources"),
    },
    "Container": {
        "ports": (6, "[Port]"),
        "resources": (8, "Resources"),
        "restartPolicy": (24, "string"),
    },
    "Port": {"hostPort": (2, "int32")},
    "Resources": {"requests": (2, "[Amount]")},
    "Amount": {"key": (1, "string"), "value": (2, "Quantity")},
    "Quantity": {"string": (1, "string")},
    "Affinity": {
        "nodeAffinity": (1, "bytes"),
        "podAffinity": (2, "bytes"),
        "podAntiAffinity": (3, "AntiAffinity"),
    },
    "AntiAffinity": {"required": (1, "[AffinityTerm]")},
    "AffinityTerm": {
        "labelSelector": (1, "Selector"),
        "namespaces": (2, "[string]"),
        "topologyKey": (3, "string"),
        "namespaceSelector": (4, "Selector"),
    },
    "Selector": {"matchLabels": (1, "[Text]"), "matchExpressions": (2, "[Requirement]")},
    "Requirement": {"key": (1, "string"), "operator": (2, "string"), "values": (3, "[string]")},
    "Node": {"metadata": (1, "NodeMeta"), "status": (3, "NodeStatus")},
    "NodeMeta": {"labels": (11, "[Text]"), "annotations": (12, "[Text]")},
    "NodeStatus": {"capacity": (1, "[Amount]"), "allocatable": (2, "[Amount]")},
}


def _file() -> descriptor_pb2.FileDescriptorProto:
    # proto2, as Kubernetes: a string of bad UTF-8 is then no reason to lose the whole request.
    file = descriptor_pb2.FileDescriptorProto(
        name="surgekit/expander.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            added = message.field.add(name=field, number=number, label=_Field.LABEL_OPTIONAL)
            if kind.startswith("["):
                added.label = _Field.LABEL_REPEATED
            if (element := kind.strip("[]")) in _SCALARS:
                added.type = _SCALARS[element]
            else:
                added.type, added.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{element}"
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file())


def _message(name: str) -> Any:  # the fields are known only at run time; `decode` gives them types
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


BestOptionsRequest = _message("BestOptionsRequest")
BestOptionsResponse = _message("BestOptionsResponse")
Option = _message("Option")
Pod = _message("Pod")
Node = _message("Node")
