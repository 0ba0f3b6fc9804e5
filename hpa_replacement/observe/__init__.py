"""Observes targets: pods and nodes through watches, throughput and latency through Prometheus."""
