"""FCMA: which instance classes to rent, and what goes on them. See README.md."""
