"""What accelerators did, by their vendors' own tracing interfaces; the work is done in the extension."""
