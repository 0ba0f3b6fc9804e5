"""PulseNet beside other systems, played with Azure's trace of 2019."""
