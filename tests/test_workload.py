"""The commands accept valid numbers of a workload and refuse others."""

import json

from ms_profiler import cli
from ms_profiler.store import layout
from store_builder import write_training


def test_numbers_reach_the_summary_and_the_terminal(tmp_path, capsys):
    # each of the later steps takes 10 ms
    path = write_training(tmp_path)
    given = ["--flops-per-step", "1e10", "--peak-flops", "4e12", "--tokens-per-step", "512"]
    assert cli.main(["summary", str(path), *given]) == 0
    assert "MFU 25.00 %, 1 TFLOP/s, 51,200.00 tokens/s" in capsys.readouterr().out
    found = json.loads((path / layout.SUMMARY).read_text())["utilization"]
    assert (found["mfu"], found["tokens_per_second"], found["peak_flops"]) == (0.25, 51_200.0, 4e12)
    assert cli.main(["analyse", str(path)]) == 0
    assert json.loads((path / layout.SUMMARY).read_text())["utilization"] is None


def test_a_number_that_cannot_be_is_one_line(tmp_path, capsys):
    path = write_training(tmp_path)
    assert cli.main(["analyse", str(path), "--peak-flops", "-1"]) != 0
    err = capsys.readouterr().err
    assert err.startswith("ms-profiler: --peak-flops is -1, but must be a positive number.") and err.count("\n") == 1
