"""MindSpore: one file per concern. Importing the package imports none of them: helper processes come through here."""
