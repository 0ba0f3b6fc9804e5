"""InPlaceDeployment: a Deployment whose pods are resized in place (figs 10b, 11)."""
