"""The start of this interpreter: the name of the variable, and the directory."""

#: The environment variable that users set.
VARIABLE = "MS_PROFILER_OPTIONS"

#: The directory in which the interpreter started; a relative `output_path` begins there. Empty when it is gone.
directory = ""
