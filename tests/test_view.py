"""The server of `ms-profiler view` answers its clients, and serves only the results that it was given."""

import http.client
import signal
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import pytest
from conftest import environment
from ms_profiler.analysis.driver import engine
from ms_profiler.analysis.page import server, shelves
from ms_profiler.cli import main
from store_builder import training

NAMES = [f"host_{rank}_2026010100000{rank}123_ascend_ms" for rank in range(3)]


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Return a folder with the results of two ranks of one job, and of another job whose result was not analysed."""
    parent = tmp_path_factory.mktemp("data")
    for rank, name in enumerate(NAMES[:2]):
        training(parent, name=name, rank=rank, world_size=2, job="first").write()
    training(parent, steps=10, name=NAMES[2], job="second").write()
    engine.analyse([parent / NAMES[0]])
    return parent


@pytest.fixture(scope="module")
def serving(results, tmp_path_factory):
    """Return a running server of these results."""
    shelf = shelves.shelf(engine.find([results]), str(tmp_path_factory.mktemp("shelf")))
    with server.Server(shelf) as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def ask(serving, path, method="GET", **headers):
    """Return status, headers and body of the server's answer."""
    connection = http.client.HTTPConnection("127.0.0.1", serving.server_port, timeout=60)
    connection.request(method, path, headers={"Host": f"127.0.0.1:{serving.server_port}", **headers})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def below(serving, path):
    return f"/{serving.token}/{path}"


def test_the_index_leads_to_a_page_of_each_result_and_of_the_ranks_of_a_job(serving):
    titles = [row["page"] for row in serving.shelf.index]
    assert titles == ["job-0", "run-0", "run-1", "run-2"]
    assert serving.shelf.index[0]["ranks"] == 2
    assert serving.shelf.index[1]["verdict"] == "30 % of the step waits for data."
    for path in ("", "run-2/", "job-0/"):
        status, headers, body = ask(serving, below(serving, path))
        assert status == 200 and b"<!doctype html>" in body
        assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"


def test_a_page_may_fetch_from_its_own_server_alone(serving):
    _, _, body = ask(serving, below(serving, "run-0/"))
    assert b"default-src 'none'" in body and b"connect-src 'self'" in body and b"connect-src *" not in body


def test_timelines_are_those_of_the_results(serving, results):
    status, _, body = ask(serving, below(serving, "run-0/timeline"))
    assert (status, body) == (200, (results / NAMES[0] / "ASCEND_PROFILER_OUTPUT" / "trace.pftrace").read_bytes())
    # a result that was not analysed has a timeline, and no file is added to it
    status, _, body = ask(serving, below(serving, "run-2/timeline"))
    assert status == 200 and len(body) > 1000
    assert not (results / NAMES[2] / "summary.json").exists()
    assert ask(serving, below(serving, "job-0/timeline"))[0] == 404


def test_without_the_token_no_page_is_served(serving):
    for path in ("/", "/run-0/", "/wrong/", f"/{serving.token}x/", f"/{serving.token[:-1]}/", "//", "/%00/"):
        status, _, body = ask(serving, path)
        assert status == 404 and b"doctype" not in body, path
    assert len(serving.token) >= 32


def test_a_name_that_leads_here_is_refused(serving):
    for host in (
        "evil.example",
        f"evil.example:{serving.server_port}",
        "127.0.0.1",
        "",
        f"0.0.0.0:{serving.server_port}",
    ):
        status, _, body = ask(serving, below(serving, ""), Host=host)
        assert status == 403 and b"doctype" not in body, host
    assert ask(serving, below(serving, ""), Host=f"localhost:{serving.server_port}")[0] == 200


def test_no_other_path_is_served_and_no_request_is_accepted(serving):
    for path in (
        "../summary.json",
        "run-0/summary.json",
        "run-0/../../summary.json",
        "run-9/",
        "/etc/passwd",
        "run-0/%2e%2e/",
    ):
        assert ask(serving, below(serving, path))[0] == 404, path
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(serving, below(serving, "run-0/"), method=method)[0] == 501
    status, headers, body = ask(serving, below(serving, "run-0/"), method="HEAD")
    assert status == 200 and body == b"" and int(headers["Content-Length"]) > 1000


def test_it_listens_on_this_machine_alone(serving):
    assert serving.server_address[0] == "127.0.0.1"


def test_the_command_prints_the_address_and_ends_with_ctrl_c(results):
    command = [sys.executable, "-m", "ms_profiler", "view", results / NAMES[0], "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as run:
        address = urlsplit(run.stdout.readline().strip())
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)
        connection.request("GET", address.path)
        answer = connection.getresponse()
        assert answer.status == 200 and b"<!doctype html>" in answer.read()
        connection.close()
        run.send_signal(signal.SIGINT)
        assert run.wait(60) == 130
        assert run.stderr.read() == ""


def test_a_port_that_is_taken_is_named(serving, results, capsys):
    port = str(serving.server_port)
    assert main(["view", str(results / NAMES[0]), "--port", port, "--no-browser"]) == 2
    assert f"Port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err


def test_ranks_of_a_job_are_one_report_beside_them(tmp_path):
    for rank in range(2):
        training(tmp_path, name=NAMES[rank], rank=rank, world_size=2, job="one").write()
    assert main(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").stat().st_size > 10_000
