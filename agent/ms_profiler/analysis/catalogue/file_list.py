"""All files of a result that have columns or keys; `ms-profiler tables --files` prints them."""

from typing import Final

from ms_profiler.analysis.catalogue.cluster_files import CLUSTER_FILES
from ms_profiler.analysis.catalogue.csv_files import CSV_FILES
from ms_profiler.analysis.catalogue.database_files import DATABASE_FILES
from ms_profiler.analysis.catalogue.json_files import JSON_FILES

#: heading of docs/files.md -> the files below it
GROUPS: Final = {
    "CSV and stacks": CSV_FILES,
    "JSON": JSON_FILES,
    "Of all ranks": CLUSTER_FILES,
    "Databases": DATABASE_FILES,
}
FILES: Final = tuple(file for files in GROUPS.values() for file in files)
