"""The Cluster Autoscaler expander: which node group to grow next. See README.md."""
