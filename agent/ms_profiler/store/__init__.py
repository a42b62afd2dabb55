"""The only folder that both wings import: names, the on-disk format and its reader."""
