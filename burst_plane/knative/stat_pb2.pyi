from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Stat(_message.Message):
    __slots__ = ("pod_name", "average_concurrent_requests", "average_proxied_concurrent_requests", "request_count", "proxied_request_count", "process_uptime", "timestamp")
    POD_NAME_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_CONCURRENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_PROXIED_CONCURRENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROXIED_REQUEST_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROCESS_UPTIME_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_FIELD_NUMBER: _ClassVar[int]
    pod_name: str
    average_concurrent_requests: float
    average_proxied_concurrent_requests: float
    request_count: float
    proxied_request_count: float
    process_uptime: float
    timestamp: int
    def __init__(self, pod_name: _Optional[str] = ..., average_concurrent_requests: _Optional[float] = ..., average_proxied_concurrent_requests: _Optional[float] = ..., request_count: _Optional[float] = ..., proxied_request_count: _Optional[float] = ..., process_uptime: _Optional[float] = ..., timestamp: _Optional[int] = ...) -> None: ...

class WireStatMessage(_message.Message):
    __slots__ = ("namespace", "name", "stat")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    STAT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    stat: Stat
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., stat: _Optional[_Union[Stat, _Mapping]] = ...) -> None: ...

class WireStatMessages(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[WireStatMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[WireStatMessage, _Mapping]]] = ...) -> None: ...
