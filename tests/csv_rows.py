"""Read the CSV tables of a result."""

import csv

from store_builder import folder_of


def rows(result, name):
    """Return the rows of a table of a result directory as dictionaries; `name` may lack its suffix `.csv`."""
    with open(folder_of(result) / f"{name.removesuffix('.csv')}.csv", newline="") as stream:
        return list(csv.DictReader(stream))
