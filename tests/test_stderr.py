"""A stderr that does not take our lines changes nothing in the job."""

import fcntl
import os
import resource
import signal
import subprocess
import termios

import pytest
from guests import OFF, Guest, closed_pipe, lines_of

JOB = "import mindspore\nprint('trained')\n"
DEFAULT = (
    "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
)


def full_device():
    descriptor = os.open("/dev/full", os.O_WRONLY)
    return {"stderr": descriptor, "after": lambda: os.close(descriptor)}


def without_reader():
    descriptor = closed_pipe()
    return {"stderr": descriptor, "after": lambda: os.close(descriptor)}


def full_pipe(blocking):
    def make():
        reader, writer = os.pipe()
        os.set_blocking(writer, False)
        try:
            while True:
                os.write(writer, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(writer, blocking)

        def after():
            kept = os.get_blocking(writer)
            os.close(writer)
            os.set_blocking(reader, False)
            held = b"".join(iter(lambda: os.read(reader, 1 << 20), b""))
            os.close(reader)
            return kept, held.strip(b"x")

        return {"stderr": writer, "after": after}

    return make


def limited_file(folder):
    """Return a function that makes stderr a file that has reached the process's limit of file sizes."""

    def make():
        path = folder / "limited"
        path.write_bytes(b"x" * 65536)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

        def after():
            os.close(descriptor)
            return path.read_bytes().strip(b"x")

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        return {"stderr": descriptor, "after": after, "preexec_fn": limit}

    return make


@pytest.mark.parametrize("begins", ["", DEFAULT], ids=["python", "default"])
@pytest.mark.parametrize(
    "channels",
    [full_device, without_reader, full_pipe(True), full_pipe(False)],
    ids=["full", "closed", "pipe", "no wait"],
)
def test_a_stderr_that_refuses_writes(guest, channels, begins):
    """Such a stderr once made a profiled job end with code 120, or by a SIGPIPE before its own code began."""
    bare, profiled = guest.both(begins + JOB, channels)
    assert profiled == bare and bare[:2] == (0, b"trained\n")


def test_a_file_that_has_reached_its_limit(guest, tmp_path):
    """The limit holds for each file of the process, also of the store, but only stderr has reached it."""
    bare, profiled = guest.both(DEFAULT + JOB, limited_file(tmp_path), {"quiet": True, "no such option": 1} | OFF)
    assert profiled == bare and bare[:2] == (0, b"trained\n")


def test_a_full_disk_takes_no_part_of_a_line(guest, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    try:

        def channels():
            path = disk / "err"
            with path.open("wb", buffering=0) as stream:  # leave 30 bytes of the file's last page
                stream.write(b"x" * (4096 - 30))
            with (disk / "filler").open("wb", buffering=0) as stream:
                try:
                    while True:
                        stream.write(b"y" * 4096)
                except OSError:
                    pass
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)

            def after():
                os.close(descriptor)
                return path.read_bytes().strip(b"x")

            return {"stderr": descriptor, "after": after}

        bare, profiled = guest.both(JOB, channels)
        assert profiled == bare
    finally:
        subprocess.run(["umount", disk], check=True)


OWN_FILE = """
import os
{how}
import mindspore
os.write(2, b"mine\\n")
print(open("own").read())
"""


@pytest.mark.parametrize(
    "how",
    [
        "descriptor = os.open('own', os.O_RDWR | os.O_CREAT | os.O_TRUNC)\nassert descriptor == 2",
        "os.dup2(os.open('own', os.O_RDWR | os.O_CREAT | os.O_TRUNC), 2)",
    ],
    ids=["closed at the start", "redirected"],
)
def test_descriptor_2_that_is_a_file_of_the_job(guest, how):
    closed = "2>&-" if "assert" in how else ""
    program = OWN_FILE.format(how=how)

    def channels():
        return {"preexec_fn": (lambda: os.close(2)) if closed else None, "stderr": None if closed else subprocess.PIPE}

    bare, profiled = guest.both(program, channels)
    assert profiled[:2] == bare[:2] == (0, b"mine\n\n")


def test_a_stderr_that_the_script_replaced_is_not_used(guest):
    program = (
        "import contextlib, io\nwith contextlib.redirect_stderr(io.StringIO()) as text:\n    import mindspore\n"
        "print(repr(text.getvalue()))"
    )
    bare, profiled = guest.both(program, lambda: {"stderr": subprocess.PIPE})
    assert profiled[:2] == bare[:2] == (0, b"''\n")
    assert lines_of(profiled[2])[0].startswith("recording to "), "it stands where stderr was"


def test_jupyter_shows_our_lines(guest):
    """Jupyter's kernel sends `sys.stderr` to the notebook; descriptor 2 is a log that the user does not see."""
    program = (
        "import io, sys\nstream = type('OutStream', (io.StringIO,), {'__module__': 'ipykernel.iostream'})()\n"
        "sys.stderr = stream\nimport mindspore\nprint(stream.getvalue().splitlines()[0])"
    )
    process = guest.start(program, OFF, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert lines_of(out)[0].startswith("recording to ") and b"recording to" not in err


def test_a_signal_of_the_job_s_own_stays_pending(guest):
    """A SIGPIPE that the job blocks, and that came before our line, is still pending after it."""
    program = (
        "import os, signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\nsignal.raise_signal(signal.SIGPIPE)\nimport mindspore\n"
        "print(sorted(signal.sigpending()), sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))"
    )
    bare, profiled = guest.both(program, without_reader)
    assert profiled == bare and b"13" in bare[1]


def test_a_terminal_that_belongs_to_another_job_does_not_stop_it(guest):
    """With `stty tostop`, a background job that writes to the terminal is stopped."""
    controller, terminal = os.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[3] |= termios.TOSTOP
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    # The session's leader has the terminal. Its child, in a group of its own, is the background job.
    program = (
        "import fcntl, os, sys, termios\nos.setsid()\nfcntl.ioctl(2, termios.TIOCSCTTY, 0)\nchild = os.fork()\n"
        "if child == 0:\n    os.setpgid(0, 0)\n    import mindspore\n    os._exit(0)\n"
        "_, status = os.waitpid(child, os.WUNTRACED)\nprint(os.WIFSTOPPED(status), status)\n"
        "os.kill(child, 9)"
    )
    process = guest.start(program, OFF, stdout=subprocess.PIPE, stderr=terminal)
    out, _ = process.communicate(timeout=60)
    os.close(terminal)
    os.close(controller)
    assert out == b"False 0\n"


def test_a_long_line_is_cut_between_characters(guest):
    """A line longer than a pipe takes in one write could be cut inside a character, or mixed with other output."""
    process = guest.start(JOB, {"\u4e2d" * 3000: 1} | OFF, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    _, err = process.communicate(timeout=60)
    assert max(map(len, err.splitlines())) <= 4096
    err.decode()


@pytest.mark.slow
def test_with_the_framework_itself(tmp_path):
    bare, profiled = Guest(tmp_path, real=True).both(DEFAULT + JOB, without_reader)
    assert profiled == bare and bare[:2] == (0, b"trained\n")


def test_flags_of_the_pipe_stay(guest):
    reader, writer = os.pipe()
    before = fcntl.fcntl(writer, fcntl.F_GETFL)
    process = guest.start(JOB, OFF, stdout=subprocess.PIPE, stderr=writer)
    process.communicate(timeout=60)
    assert fcntl.fcntl(writer, fcntl.F_GETFL) == before
    assert process.returncode != -signal.SIGPIPE
    os.close(writer)
    os.close(reader)
