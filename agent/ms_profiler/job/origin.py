"""The variable that starts ms-profiler in this interpreter, and the directory in which the interpreter started."""

#: The environment variable that users set to start ms-profiler.
VARIABLE = "MS_PROFILER_OPTIONS"

#: The directory in which the interpreter started; a relative `output_path` refers to it. Empty if the directory had
#: been deleted.
directory = ""
