"""Record accelerators through their vendors' tracing interfaces; the extension does the work."""
