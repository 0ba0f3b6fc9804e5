"""What each container's CPU and memory limit should be now (section IV of the paper). Pure."""
