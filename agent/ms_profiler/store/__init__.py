"""The only room that both wings know: names, the on-disk format and its reader."""
