"""The extender against stock kube-scheduler: seconds until a scale-out is Ready."""
