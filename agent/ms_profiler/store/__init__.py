"""The common ground of `job` and `analysis`: names, the on-disk format and its reader."""
