"""Read the tables of a result for tests."""

import csv

from store_builder import folder_of


def rows(result, name):
    """Return the rows of a table of a result directory; `.csv` may be left out of its name."""
    with open(folder_of(result) / f"{name.removesuffix('.csv')}.csv", newline="") as stream:
        return list(csv.DictReader(stream))
