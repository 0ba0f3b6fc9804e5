"""The real node measured, the node model fitted to it, and the emulation's error on other rounds."""
