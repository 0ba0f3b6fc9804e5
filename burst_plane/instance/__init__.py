"""What an emergency instance is made of: its container, its network's rules, its share of the node. Pure."""
