"""gRPC between our own processes: mutual TLS, a list of allowed callers for each method, messages in msgpack.

`messages` is pure; `server` and `client` need grpcio, which only parts with a wire install.
"""
