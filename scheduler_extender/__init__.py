"""ComboFunc's placement as a kube-scheduler extender: nodes scored by creation speed and fragment price."""
