"""The hooks of MindSpore, one file for each concern.

This package imports none of these files, because helper processes import the package, too.
"""
