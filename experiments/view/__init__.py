"""What the live page costs on a large cluster."""
