"""Decides for one ComboFunc: a new plan or the present one, the next actions, the status. Pure."""
