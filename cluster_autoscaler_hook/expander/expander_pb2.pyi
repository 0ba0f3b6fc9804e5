from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BestOptionsRequest(_message.Message):
    __slots__ = ("options", "nodeMap", "nodeBytesMap")
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    NODEMAP_FIELD_NUMBER: _ClassVar[int]
    NODEBYTESMAP_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedCompositeFieldContainer[Option]
    nodeMap: _containers.RepeatedCompositeFieldContainer[NodeEntry]
    nodeBytesMap: _containers.RepeatedCompositeFieldContainer[NodeEntry]
    def __init__(self, options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ..., nodeMap: _Optional[_Iterable[_Union[NodeEntry, _Mapping]]] = ..., nodeBytesMap: _Optional[_Iterable[_Union[NodeEntry, _Mapping]]] = ...) -> None: ...

class BestOptionsResponse(_message.Message):
    __slots__ = ("options",)
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    options: _containers.RepeatedCompositeFieldContainer[Option]
    def __init__(self, options: _Optional[_Iterable[_Union[Option, _Mapping]]] = ...) -> None: ...

class Option(_message.Message):
    __slots__ = ("nodeGroupId", "nodeCount", "debug", "pod", "podBytes")
    NODEGROUPID_FIELD_NUMBER: _ClassVar[int]
    NODECOUNT_FIELD_NUMBER: _ClassVar[int]
    DEBUG_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    PODBYTES_FIELD_NUMBER: _ClassVar[int]
    nodeGroupId: str
    nodeCount: int
    debug: str
    pod: _containers.RepeatedScalarFieldContainer[bytes]
    podBytes: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, nodeGroupId: _Optional[str] = ..., nodeCount: _Optional[int] = ..., debug: _Optional[str] = ..., pod: _Optional[_Iterable[bytes]] = ..., podBytes: _Optional[_Iterable[bytes]] = ...) -> None: ...

class NodeEntry(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: bytes
    def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...

class Pod(_message.Message):
    __slots__ = ("metadata", "spec")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    metadata: ObjectMeta
    spec: PodSpec
    def __init__(self, metadata: _Optional[_Union[ObjectMeta, _Mapping]] = ..., spec: _Optional[_Union[PodSpec, _Mapping]] = ...) -> None: ...

class ObjectMeta(_message.Message):
    __slots__ = ("namespace", "labels")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    labels: _containers.RepeatedCompositeFieldContainer[Text]
    def __init__(self, namespace: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[Text, _Mapping]]] = ...) -> None: ...

class Text(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class PodSpec(_message.Message):
    __slots__ = ("containers", "nodeSelector", "affinity", "initContainers", "tolerations", "overhead", "topologySpreadConstraints", "resources")
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    NODESELECTOR_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_FIELD_NUMBER: _ClassVar[int]
    INITCONTAINERS_FIELD_NUMBER: _ClassVar[int]
    TOLERATIONS_FIELD_NUMBER: _ClassVar[int]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGYSPREADCONSTRAINTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    containers: _containers.RepeatedCompositeFieldContainer[Container]
    nodeSelector: _containers.RepeatedScalarFieldContainer[bytes]
    affinity: Affinity
    initContainers: _containers.RepeatedCompositeFieldContainer[Container]
    tolerations: _containers.RepeatedScalarFieldContainer[bytes]
    overhead: _containers.RepeatedCompositeFieldContainer[Amount]
    topologySpreadConstraints: _containers.RepeatedScalarFieldContainer[bytes]
    resources: Resources
    def __init__(self, containers: _Optional[_Iterable[_Union[Container, _Mapping]]] = ..., nodeSelector: _Optional[_Iterable[bytes]] = ..., affinity: _Optional[_Union[Affinity, _Mapping]] = ..., initContainers: _Optional[_Iterable[_Union[Container, _Mapping]]] = ..., tolerations: _Optional[_Iterable[bytes]] = ..., overhead: _Optional[_Iterable[_Union[Amount, _Mapping]]] = ..., topologySpreadConstraints: _Optional[_Iterable[bytes]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ...) -> None: ...

class Container(_message.Message):
    __slots__ = ("ports", "resources", "restartPolicy")
    PORTS_FIELD_NUMBER: _ClassVar[int]
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    RESTARTPOLICY_FIELD_NUMBER: _ClassVar[int]
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    resources: Resources
    restartPolicy: str
    def __init__(self, ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ..., resources: _Optional[_Union[Resources, _Mapping]] = ..., restartPolicy: _Optional[str] = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ("hostPort",)
    HOSTPORT_FIELD_NUMBER: _ClassVar[int]
    hostPort: int
    def __init__(self, hostPort: _Optional[int] = ...) -> None: ...

class Resources(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[Amount]
    def __init__(self, requests: _Optional[_Iterable[_Union[Amount, _Mapping]]] = ...) -> None: ...

class Amount(_message.Message):
    __slots__ = ("key", "value")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: Quantity
    def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Quantity, _Mapping]] = ...) -> None: ...

class Quantity(_message.Message):
    __slots__ = ("string",)
    STRING_FIELD_NUMBER: _ClassVar[int]
    string: str
    def __init__(self, string: _Optional[str] = ...) -> None: ...

class Affinity(_message.Message):
    __slots__ = ("nodeAffinity", "podAffinity", "podAntiAffinity")
    NODEAFFINITY_FIELD_NUMBER: _ClassVar[int]
    PODAFFINITY_FIELD_NUMBER: _ClassVar[int]
    PODANTIAFFINITY_FIELD_NUMBER: _ClassVar[int]
    nodeAffinity: bytes
    podAffinity: bytes
    podAntiAffinity: AntiAffinity
    def __init__(self, nodeAffinity: _Optional[bytes] = ..., podAffinity: _Optional[bytes] = ..., podAntiAffinity: _Optional[_Union[AntiAffinity, _Mapping]] = ...) -> None: ...

class AntiAffinity(_message.Message):
    __slots__ = ("required",)
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    required: _containers.RepeatedCompositeFieldContainer[AffinityTerm]
    def __init__(self, required: _Optional[_Iterable[_Union[AffinityTerm, _Mapping]]] = ...) -> None: ...

class AffinityTerm(_message.Message):
    __slots__ = ("labelSelector", "namespaces", "topologyKey", "namespaceSelector")
    LABELSELECTOR_FIELD_NUMBER: _ClassVar[int]
    NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    TOPOLOGYKEY_FIELD_NUMBER: _ClassVar[int]
    NAMESPACESELECTOR_FIELD_NUMBER: _ClassVar[int]
    labelSelector: Selector
    namespaces: _containers.RepeatedScalarFieldContainer[str]
    topologyKey: str
    namespaceSelector: Selector
    def __init__(self, labelSelector: _Optional[_Union[Selector, _Mapping]] = ..., namespaces: _Optional[_Iterable[str]] = ..., topologyKey: _Optional[str] = ..., namespaceSelector: _Optional[_Union[Selector, _Mapping]] = ...) -> None: ...

class Selector(_message.Message):
    __slots__ = ("matchLabels", "matchExpressions")
    MATCHLABELS_FIELD_NUMBER: _ClassVar[int]
    MATCHEXPRESSIONS_FIELD_NUMBER: _ClassVar[int]
    matchLabels: _containers.RepeatedCompositeFieldContainer[Text]
    matchExpressions: _containers.RepeatedCompositeFieldContainer[Requirement]
    def __init__(self, matchLabels: _Optional[_Iterable[_Union[Text, _Mapping]]] = ..., matchExpressions: _Optional[_Iterable[_Union[Requirement, _Mapping]]] = ...) -> None: ...

class Requirement(_message.Message):
    __slots__ = ("key", "operator", "values")
    KEY_FIELD_NUMBER: _ClassVar[int]
    OPERATOR_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    key: str
    operator: str
    values: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., operator: _Optional[str] = ..., values: _Optional[_Iterable[str]] = ...) -> None: ...

class Node(_message.Message):
    __slots__ = ("metadata", "status")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    metadata: NodeMeta
    status: NodeStatus
    def __init__(self, metadata: _Optional[_Union[NodeMeta, _Mapping]] = ..., status: _Optional[_Union[NodeStatus, _Mapping]] = ...) -> None: ...

class NodeMeta(_message.Message):
    __slots__ = ("labels", "annotations")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedCompositeFieldContainer[Text]
    annotations: _containers.RepeatedCompositeFieldContainer[Text]
    def __init__(self, labels: _Optional[_Iterable[_Union[Text, _Mapping]]] = ..., annotations: _Optional[_Iterable[_Union[Text, _Mapping]]] = ...) -> None: ...

class NodeStatus(_message.Message):
    __slots__ = ("capacity", "allocatable")
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_FIELD_NUMBER: _ClassVar[int]
    capacity: _containers.RepeatedCompositeFieldContainer[Amount]
    allocatable: _containers.RepeatedCompositeFieldContainer[Amount]
    def __init__(self, capacity: _Optional[_Iterable[_Union[Amount, _Mapping]]] = ..., allocatable: _Optional[_Iterable[_Union[Amount, _Mapping]]] = ...) -> None: ...
