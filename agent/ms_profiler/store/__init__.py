"""The store, which `job` and `analysis` share: names of records and files, the on-disk format, and its reader."""
