"""The hooks of MindSpore, one file for each concern.

Helper processes import this package, too, and need no hooks. So the package itself imports none of these files.
"""
