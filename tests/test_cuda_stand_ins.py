"""A library whose dependencies are missing loads with stand-ins for them, which report that there is no driver."""

import ctypes
import subprocess

import cuda_stand_ins
import pytest

MISSING = """
int cudaGetDeviceCount(int *count) { return 0; }
const char *cudaGetErrorString(int error) { return "fine"; }
char cudaTable[64];
"""
PLAIN = "int ncclGetVersion(int *version) { return 0; }\n"
USER = """
#include <stdio.h>
extern int cudaGetDeviceCount(int *), ncclGetVersion(int *);
extern const char *cudaGetErrorString(int);
extern char cudaTable[64];
extern int Py_IsInitialized(void);
int (*const asks)(int *) = cudaGetDeviceCount; /* looked up when the library is loaded, not when it is called */
int devices(void) { int count = 0; return asks(&count); }
int version(void) { int number = 0; return ncclGetVersion(&number); }
int text(void) { return cudaGetErrorString(1)[0]; }
int variable(void) { return sizeof cudaTable + cudaTable[0]; }
int interpreter(void) { return printf("%s", "") + Py_IsInitialized(); }
"""


def compiled(folder, name, source, *words):
    (folder / "source.c").write_text(source)
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", folder / name, folder / "source.c", *words]
    subprocess.run(command, check=True)
    (folder / "source.c").unlink()


@pytest.fixture
def wheel(tmp_path):
    """Return a folder with a library whose dependencies were removed after linking."""
    script = tmp_path / "script"
    script.write_text("libcudamissing.so.7 { global: cuda*; };\n")
    compiled(tmp_path, "libcudamissing.so.7", MISSING, f"-Wl,--version-script,{script}")
    compiled(tmp_path, "libncclmissing.so.2", PLAIN)
    needed = (tmp_path / "libcudamissing.so.7", tmp_path / "libncclmissing.so.2")
    compiled(tmp_path, "libuser.so", USER, *needed, "-Wl,-rpath,$ORIGIN")
    for library in (*needed, script):
        library.unlink()
    return tmp_path


def test_a_library_loads_with_stand_ins_for_missing_libraries(wheel):
    with pytest.raises(OSError, match="libcudamissing"):
        ctypes.CDLL(str(wheel / "libuser.so"))
    assert cuda_stand_ins.make(wheel) == ["libcudamissing.so.7", "libncclmissing.so.2"]
    assert sorted(file.name for file in wheel.iterdir()) == ["libcudamissing.so.7", "libncclmissing.so.2", "libuser.so"]
    library = ctypes.CDLL(str(wheel / "libuser.so"))
    assert (library.devices(), library.version()) == (cuda_stand_ins.NO_DRIVER,) * 2
    # the text of an error is empty, a variable exists, and the interpreter's symbols are the real ones
    assert (library.text(), library.variable(), library.interpreter()) == (0, 64, 1)
    assert cuda_stand_ins.make(wheel) == []


def test_symbols_of_the_host_are_not_replaced():
    """Some wheels require the host's symbols without a version. The linker would find a stand-in's symbol first."""
    user = cuda_stand_ins.Library(needed=["libmissing.so"], wanted={("strlen", ""): False, ("nccl", ""): False})
    found = cuda_stand_ins.stand_ins([user], {"libmissing.so"}, lambda symbol: symbol == "strlen")
    assert found["libmissing.so"].symbols == {"": {"nccl": False}}
