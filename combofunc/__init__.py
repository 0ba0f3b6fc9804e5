"""ComboFunc: functions with containers of several sizes (fig. 10a), and their controller."""
