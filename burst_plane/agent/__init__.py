"""The node agent: starts emergency instances beside the kubelet."""
