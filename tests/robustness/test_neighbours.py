"""Beside another tool, a profiled job has the same results, and both tools have theirs.

The tools are in a separate environment, `.venv/robustness`, which `make test-robustness` makes.
"""

import os
import subprocess

import pytest
from conftest import ROOT, environment
from unharmed import analysed, others, training

ENVIRONMENT = ROOT / ".venv" / "robustness"
PYTHON = ENVIRONMENT / "bin" / "python"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="make test-robustness makes the environment of the tools")

GEVENT = "from gevent import monkey; monkey.patch_all()"
SENTRY = "import sentry_sdk; sentry_sdk.init(dsn=None, traces_sample_rate=1.0, default_integrations=True)"
WANDB = (
    "import wandb; run = wandb.init(mode='offline', project='x', settings=wandb.Settings(console='off', silent=True))"
)
MLFLOW = "import mlflow; mlflow.set_tracking_uri('file:./mlruns'); mlflow.start_run(run_name='x')"
MLFLOW_END = "[mlflow.log_metric('loss', number, step=number) for number in range(3)]; mlflow.end_run()"

#: tool -> command before the script; text before the framework's import, text after it, text at the end of the script
TOOLS = {
    "opentelemetry-instrument": (
        [
            "bin:opentelemetry-instrument",
            "--traces_exporter=none",
            "--metrics_exporter=none",
            "--logs_exporter=none",
            "python",
        ],
        "",
        "",
        "",
    ),
    "ddtrace-run": (["bin:ddtrace-run", "python"], "", "", ""),
    "coverage": (["-m", "coverage", "run", "--branch"], "", "", ""),
    "VizTracer": (["-m", "viztracer", "--quiet", "--max_stack_depth", "2", "-o", "traced.json"], "", "", ""),
    "debugpy": (["-Xfrozen_modules=off", "-m", "debugpy", "--listen", "127.0.0.1:0"], "", "", ""),
    "sentry first": ([], SENTRY, "", ""),
    "sentry after": ([], "", SENTRY, ""),
    "gevent": ([], GEVENT, "", ""),
    "wandb first": ([], WANDB, "", "run.log({'loss': 1}); run.finish()"),
    "wandb after": ([], "", WANDB, "run.watch(model, log_freq=1); [step() for _ in range(5)]; run.finish()"),
    "mlflow first": ([], MLFLOW, "", MLFLOW_END),
    "mlflow after": ([], "", MLFLOW, MLFLOW_END),
}

QUIET = {
    "DD_TRACE_STARTUP_LOGS": "false",
    "DD_TRACE_ENABLED": "true",
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:1",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "OTEL_SDK_DISABLED": "false",
    "WANDB_SILENT": "true",
    "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    "MLFLOW_ENABLE_ASYNC_LOGGING": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}


def run(folder, tool, options):
    """Run the job under a tool in a new folder, and return the finished process."""
    words, before, after, end = TOOLS[tool]
    folder.mkdir()
    script = folder / "job.py"
    script.write_text(training(f"{after}\nfor number in range(20): loss = step()\nprint(loss)\n{end}", before))
    words = [str(ENVIRONMENT / "bin" / word[4:]) if word.startswith("bin:") else word for word in words]
    command = words if words and words[0].startswith("/") else [str(PYTHON), *words]
    variables = environment(options, **QUIET, PATH=f"{ENVIRONMENT / 'bin'}:{os.environ['PATH']}")
    return subprocess.run(
        [*command, str(script)], env=variables, cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


#: words of lines that a tool prints only sometimes, depending on the clock or the network
NOISE = (
    "failed to send",
    "Traceback (most recent",
    "connection",
    "Connection",
    "ddtrace",
    "wandb:",
    "urllib3",
    "WARNING",
)


@pytest.mark.parametrize("tool", TOOLS)
def test_both_have_their_results(tmp_path, tool):
    bare = run(tmp_path / "bare", tool, None)
    options = {"start": True, "output_path": str(tmp_path / "data"), "analyse": "off"}
    profiled = run(tmp_path / "profiled", tool, options)
    assert (profiled.returncode, profiled.stdout) == (bare.returncode, bare.stdout), profiled.stderr
    assert bare.returncode == 0, bare.stderr

    def kept(text):
        return [line for line in others(text) if not any(noise in line for noise in NOISE)]

    assert kept(profiled.stderr.replace("/profiled/", "/bare/")) == kept(bare.stderr), profiled.stderr

    class Ended:
        (result,) = (tmp_path / "data").glob("*_ascend_ms")

    assert analysed(Ended)["steps"]["count"] >= 26
    left = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("bare", "profiled")]
    fixed = [
        [name for name in names if "." not in name[1:] or name.endswith((".json", ".py", ".out"))] for names in left
    ]
    assert fixed[0] == fixed[1]
