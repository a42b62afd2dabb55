"""Each type of option accepts its values and refuses all others."""

import pytest
from ms_profiler import option_types as kinds


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (1_000_000, 1_000_000),
        ("5GB", 5 * 10**9),
        ("5 gb", 5 * 10**9),
        ("1.5G", 1_500_000_000),
        ("512MiB", 512 * 2**20),
        ("2TiB", 2 * 2**40),
        ("1000000", 1_000_000),
        ("1e6B", 1_000_000),
    ],
)
def test_size(value, size):
    assert kinds.Size(10**6).resolve(value) == size


@pytest.mark.parametrize(
    "value",
    [0, -1, 999_999, "5XB", "GB", "", "B", "-5GB", "1e400TB", "1e300TB", "nanGB", "inf", True, 1e7, [], None, 2**63],
)
def test_size_refuses(value):
    with pytest.raises(ValueError):
        kinds.Size(10**6).resolve(value)


@pytest.mark.parametrize(
    ("size", "text"), [(5 * 10**9, "5GB"), (10**6, "1MB"), (1500, "1500B"), (2048, "2048B"), (10**12, "1TB")]
)
def test_size_as_text_is_read_back(size, text):
    assert kinds.Size(1).text(size) == text
    assert kinds.Size(1).resolve(text) == size


@pytest.mark.parametrize(
    ("value", "ranks"),
    [
        ("all", "all"),
        (" ALL ", "all"),
        ([0, 8], "0,8"),
        ([0, "4-6"], "0,4-6"),
        ("0-7,64", "0-7,64"),
        ("3-3", "3"),
        (5, "5"),
        ("sample:8", "sample:8"),
        ("Sample: 8", "sample:8"),
    ],
)
def test_ranks(value, ranks):
    assert kinds.Ranks().resolve(value) == ranks


@pytest.mark.parametrize(
    "value",
    [
        "",
        "7-0",
        "-1",
        "1_0",
        "+1",
        "a",
        "0,,1",
        "sample:",
        "sample:0",
        "sample:x",
        "9" * 10,
        "\u0661",
        [],
        [True],
        [1.0],
        [None],
        {},
        None,
        True,
        1.0,
        -1,
        list(range(kinds.LONGEST + 1)),
    ],
)
def test_ranks_refuses(value):
    with pytest.raises(ValueError):
        kinds.Ranks().resolve(value)


def test_a_schedule_is_filled_up():
    assert kinds.StepPlan().resolve({"active": 2, "wait": 1}) == {
        "skip_first": 0,
        "wait": 1,
        "warmup": 0,
        "active": 2,
        "repeat": 0,
    }
    assert kinds.StepPlan().resolve(None) is None


@pytest.mark.parametrize(
    "value",
    [[], "x", 1, {"active": 0}, {"wait": -1}, {"active": 1.0}, {"active": True}, {"actve": 1}, {"wait": 10**13}],
)
def test_a_schedule_refuses(value):
    with pytest.raises(ValueError):
        kinds.StepPlan().resolve(value)


@pytest.mark.parametrize(("value", "truth"), [(True, True), (False, False), ("true", True), (" False ", False)])
def test_bool(value, truth):
    assert kinds.Bool().resolve(value) is truth


@pytest.mark.parametrize("value", [0, 1, "yes", "1", "", None, [], {}, 1.0])
def test_bool_refuses(value):
    with pytest.raises(ValueError):
        kinds.Bool().resolve(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.1, 1.1, "0.5", None, True, 10**400])
def test_number_refuses(value):
    with pytest.raises(ValueError):
        kinds.Number(0, 1, "a share").resolve(value)


@pytest.mark.parametrize("value", ["", " ", "a\0b", "x" * (kinds.LONGEST + 1), 1, None, []])
def test_text_refuses(value):
    with pytest.raises(ValueError):
        kinds.Text("a path").resolve(value)


def test_a_list_of_names_keeps_the_order_and_drops_repeats():
    assert kinds.Choices("a", "b").resolve(["B", "a", "b"]) == ("b", "a")
    assert kinds.Choices("a", "b").resolve("B") == ("b",)
    assert kinds.Texts().resolve(["y", "x", "y"]) == ("y", "x")


@pytest.mark.parametrize("value", [[], "c", ["a", "c"], [["a"]], [1], None, {"a": 1}])
def test_a_list_of_names_refuses(value):
    with pytest.raises(ValueError):
        kinds.Choices("a", "b").resolve(value)
