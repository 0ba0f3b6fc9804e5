"""A function whose containers have several sizes: the resource ComboFunc (fig. 10a) and its controller."""
