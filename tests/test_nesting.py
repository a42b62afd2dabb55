import random

import polars as pl
from ms_profiler.analysis.streams.nesting import nest
from ms_profiler.store.format import Category


def frame(rows):
    """Return a table of spans from rows (process, thread, category, start in ns, end in ns)."""
    schema = {
        "process": pl.UInt32,
        "thread": pl.UInt32,
        "category": pl.UInt8,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def random_tree(generator, count):
    """Return properly nested spans with distinct bounds, as rows (start, end, parent)."""
    bounds = sorted(generator.sample(range(count * 10), 2 * count))
    spans, around = [], []
    for moment in bounds:
        room = len(spans) < count
        if around and (not room or generator.random() < 0.5):
            row = around.pop()
            spans[row] = (spans[row][0], moment, spans[row][2])
        elif room:
            spans.append((moment, None, around[-1] if around else None))
            around.append(len(spans) - 1)
    return [span for span in spans if span[1] is not None]


def test_random_trees_are_found_again():
    generator = random.Random(3)
    for _ in range(20):
        tree = random_tree(generator, 200)
        shuffled = frame([(1, 1, Category.FORWARD, start, end) for start, end, _ in tree])
        nested = nest(shuffled.sample(fraction=1.0, shuffle=True, seed=generator.randrange(1000)))
        by_start = {start: (start, end, parent) for start, end, parent in tree}
        starts = nested["start_ns"].to_list()
        for row, (start, depth, parent) in enumerate(nested.select("start_ns", "depth", "parent").iter_rows()):
            true_parent = by_start[start][2]
            assert (None if parent is None else starts[parent]) == (
                None if true_parent is None else tree[true_parent][0]
            ), row
            ancestors, up = 0, true_parent
            while up is not None:
                ancestors, up = ancestors + 1, tree[up][2]
            assert depth == ancestors


def test_threads_processes_and_operators_do_not_mix():
    nested = nest(
        frame(
            [
                (1, 1, Category.FORWARD, 0, 100),
                (1, 2, Category.FORWARD, 10, 20),
                (2, 1, Category.FORWARD, 10, 20),
                (1, 1, Category.OP, 30, 40),
                (1, 1, Category.OP, 31, 39),
                (1, 1, Category.BACKWARD, 50, 60),
            ]
        )
    )
    depths = {(row[0], row[1], row[2], row[3]): row[5] for row in nested.rows()}
    assert depths == {
        (1, 1, Category.FORWARD, 0): 0,
        (1, 2, Category.FORWARD, 10): 0,
        (2, 1, Category.FORWARD, 10): 0,
        (1, 1, Category.OP, 30): 0,
        (1, 1, Category.OP, 31): 1,
        (1, 1, Category.BACKWARD, 50): 1,
    }
    for parent, process, thread in nested.select("parent", "process", "thread").iter_rows():
        if parent is not None:
            assert nested.select("process", "thread").row(parent) == (process, thread)


def test_touching_spans_are_siblings_and_equal_ones_are_not():
    nested = nest(frame([(1, 1, 4, 0, 10), (1, 1, 4, 10, 20), (1, 1, 4, 20, 30), (1, 1, 4, 20, 30)]))
    assert nested["depth"].to_list() == [0, 0, 0, 1]


def test_span_without_duration_is_inside_the_one_around_it():
    nested = nest(frame([(1, 1, 4, 0, 10), (1, 1, 4, 5, 5), (1, 1, 4, 6, 8), (1, 1, 4, 10, 10)]))
    assert nested["depth"].to_list() == [0, 1, 1, 0]


def test_nesting_without_spans():
    assert nest(frame([])).columns[-2:] == ["depth", "parent"]
