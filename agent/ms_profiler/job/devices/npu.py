"""Find out from the device files of Ascend's driver whether there is an NPU, without loading a vendor's library."""

import posix

#: the folder of device files
FOLDER = "/dev"


def count(folder: str | None = None) -> int:
    """Return the number of NPUs: Ascend's driver makes one file for each NPU, davinci0, davinci1 and so on.

    Args:
        folder: the folder of the files; None for `FOLDER`.
    """
    try:
        names = posix.listdir(FOLDER if folder is None else folder)
    except OSError:
        return 0
    return sum(name.startswith("davinci") and name[7:].isdigit() for name in names)
