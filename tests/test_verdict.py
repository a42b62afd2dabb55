import polars as pl
import pytest
from ms_profiler.analysis.metrics import verdict
from ms_profiler.store.format import StepSource

SECOND = 10**9


def shares(**steady):
    names = {"compute": "compute (graph)"}
    return pl.DataFrame(
        {
            "phase": [names.get(name, name) for name in steady],
            "share": list(steady.values()),
            "steady_share": list(steady.values()),
        },
        schema={"phase": pl.String, "share": pl.Float64, "steady_share": pl.Float64},
    )


def sentence(table, source=StepSource.SCRIPT, steps=20, compile_ns=0, before_ns=0, run_ns=100 * SECOND):
    return verdict.finding(table, source, steps, compile_ns, before_ns, run_ns).sentence


@pytest.mark.parametrize(
    ("table", "options", "expected"),
    [
        (shares(data=0.63, backward=0.3, other=0.07), {}, "63 % of the step waits for data."),
        (shares(data=0.25, backward=0.7, other=0.05), {}, "25 % of the step waits for data."),
        (shares(data=0.1, backward=0.48, forward=0.4), {}, "The steps are dominated by backward (48 %)."),
        (shares(compute=0.9, other=0.1), {}, "The steps are dominated by compute (graph) (90 %)."),
        (shares(communication=0.3, backward=0.7), {}, "30 % of the step is communication that nothing hides."),
        (shares(checkpoint=0.5, backward=0.5), {}, "50 % of the step writes checkpoints."),
        (shares(data=0.1, other=0.9), {}, "90 % of the step is in code that nothing here measures."),
        (shares(other=1.0), {}, "Nothing inside the steps was recorded."),
        (shares(), {"steps": 0}, "No step was recorded."),
        (shares(other=1.0), {"source": StepSource.WHOLE_RUN, "steps": 1}, "No step was recorded."),
        (shares(data=0.4, other=0.6), {"source": StepSource.WHOLE_RUN}, "40 % of the run waits for data."),
        (
            shares(data=0.9),
            {"compile_ns": 41 * SECOND // 10, "before_ns": 5 * SECOND, "run_ns": 6 * SECOND},
            "Compiling took 4.1 s of 5.0 s until the last step that compiled ended.",
        ),
        (
            shares(data=0.9),
            {"compile_ns": SECOND // 2, "run_ns": SECOND, "source": StepSource.WHOLE_RUN},
            "Compiling took 500 ms of the run of 1.0 s.",
        ),
        (shares(data=0.9), {"compile_ns": 4 * SECOND}, "90 % of the step waits for data."),
    ],
)
def test_the_biggest_finding(table, options, expected):
    assert sentence(table, **options) == expected


def test_finding_is_readable_by_programs():
    found = verdict.finding(shares(data=0.63, other=0.37), StepSource.SCRIPT, 5, 0, 0, SECOND)
    assert (found.kind, found.share) == ("data", 0.63)


def kernels(*rows):
    return pl.DataFrame(rows, schema={"name": pl.String, "ratio": pl.Float64}, orient="row")


@pytest.mark.parametrize(
    ("table", "types", "expected"),
    [
        (shares(compute=0.9), [("Conv2D", 0.61), ("Add", 0.39)], "(90 %); 61 % of the kernel time is Conv2D."),
        (shares(compute=0.9), [("Conv2D", 0.19)], "(90 %)."),
        (shares(compute=0.9), [], "(90 %)."),
        (shares(data=0.5, compute=0.5), [("Conv2D", 0.61)], "waits for data."),
        (shares(other=0.9, compute=0.1), [("Conv2D", 0.61)], "measures."),
    ],
)
def test_what_leads_among_the_kernels_is_named_where_the_model_is_computed(table, types, expected):
    finding = verdict.finding(table, StepSource.SCRIPT, 20, 0, 0, 100 * SECOND, kernels(*types))
    assert finding.sentence.endswith(expected)
