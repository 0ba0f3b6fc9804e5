"""Fast placement: chooses the node of each emergency instance, beside each HAProxy (paper, section 4.3)."""
