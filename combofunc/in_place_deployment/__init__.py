"""Like a Deployment, but resized in place: the resource InPlaceDeployment (figs 10b, 11), its controller."""
