"""What a decision rests on: pods and nodes from watches, throughput and latency from Prometheus."""
