"""MindSpore: one file per concern. Importing the package imports none of them, because helper processes import it,
too."""
