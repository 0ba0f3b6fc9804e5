"""Decides what one ComboFunc needs: a new plan or the present one, and its status."""
