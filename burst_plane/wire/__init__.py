"""What controller, placements and node agents say to each other: msgpack over gRPC, mutual TLS."""
