"""Run an analysis: find inputs, divide long runs into sections, and protect files of other tools."""
