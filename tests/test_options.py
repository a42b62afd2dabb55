"""The variable accepts its valid values, and prints one line for each invalid one."""

import json
import random

import pytest
from ms_profiler import option_types, options
from ms_profiler.options import OPTIONS, Options, parse

#: a value that is wrong for every kind of option
WRONG = {"no such": ["value"]}
SAMPLE = (
    '{"start": true, "output_path": "/XXX", "memory": false, "hccl": false, "aicore_metrics": 0, "l2_cache": false}'
)


def on(**given):
    """Return the parsed value of a variable that switches profiling on and has these options."""
    return parse(json.dumps({"start": True} | given))


def as_json(value):
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("name", OPTIONS)
def test_every_default_is_allowed(name):
    option = OPTIONS[name]
    assert option.kind.resolve(as_json(option.default)) == option.default
    assert getattr(Options(), name) == option.default


@pytest.mark.parametrize("text", [None, "", "{}", '{"start": false}', '{"start": "false"}', '{"start": "False"}'])
def test_silent_and_off(text):
    assert parse(text) == options.Parsed(None, [])


def test_without_start_it_is_off_and_valid_options_have_no_message():
    assert parse('{"output_path": "/x", "takeover": false}') == options.Parsed(None, [], takeover=False)


def test_switched_off_other_errors_are_not_reported():
    assert parse('{"start": false, "exit_timeout": "soon", "oops": 1}').messages == []


@pytest.mark.parametrize(
    "text",
    [
        "not json",
        "[]",
        "[1]",
        '"str"',
        "1",
        "1e999",
        "NaN",
        "null",
        "true",
        "{",
        "\x00",
        "\ud800",
        "{'start': true}",
        " ",
        "[" * 200_000,
        '{"a":' * 200_000,
        "1" * 5000,
        '{"start": true, "op_flush": ' + "1" * 5000 + "}",
    ],
)
def test_no_object_is_one_line_and_off(text):
    parsed = parse(text)
    assert parsed.options is None
    assert parsed.takeover
    (line,) = parsed.messages
    assert line.startswith("MS_PROFILER_OPTIONS is ")
    assert line.endswith("profiling is off")
    assert len(line) < 200
    assert line.isprintable()


@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "start"])
def test_a_bad_value_is_one_line_and_the_default(name):
    parsed = on(**{name: WRONG})
    assert parsed.options is not None
    assert getattr(parsed.options, name) == OPTIONS[name].default
    assert name not in parsed.options.given
    (line,) = parsed.messages
    assert line.startswith(f"{name} is {json.dumps(WRONG)}, but must be {OPTIONS[name].kind.allowed}; using ")


@pytest.mark.parametrize("alias", [alias for option in OPTIONS.values() for alias in option.aliases])
def test_a_bad_value_under_an_old_name_is_called_by_that_name(alias):
    (line,) = on(**{alias: WRONG}).messages
    assert line.startswith(f"{alias} is ")


@pytest.mark.parametrize("value", [1, 1.0, "1", "yes", "On", " YES "])
def test_start_1_means_true_and_has_a_message(value):
    parsed = parse(json.dumps({"start": value}))
    assert parsed.options == Options(start=True, given=frozenset({"start"}))
    assert parsed.messages == [f"start is {json.dumps(value)}, but must be true or false; using true"]


@pytest.mark.parametrize("value", [0, 2, "no", "x", "", [], [1], {}, None, float("nan"), "\ud800"])
def test_any_other_start_is_one_line_and_off(value):
    parsed = parse(json.dumps({"start": value, "quiet": True}))
    assert parsed.options is None
    (line,) = parsed.messages
    assert line.startswith("start is ")
    assert line.endswith("but must be true or false; using false")


def test_long_values_are_cut_and_secrets_in_other_values_stay_out():
    parsed = on(exit_timeout="x" * 10_000, output_path="/secret")
    (line,) = parsed.messages
    assert len(line) < 200
    assert "secret" not in line


def test_a_line_stays_one_line():
    (line,) = on(analyse="a\nb\u2028c\x1b[31m").messages
    assert line.isascii()
    assert line.isprintable()


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("output_pth", "output_path"),
        ("profile_memmory", "profile_memory"),
        ("hcl", "hccl"),
        ("exit-timeout", "exit_timeout"),
    ],
)
def test_an_unknown_key_names_the_nearest(key, near):
    parsed = on(**{key: 1})
    assert parsed.messages == [f'unknown option "{key}"; did you mean {near}?']
    assert parsed.options == Options(start=True, given=frozenset({"start"}))


def test_a_misspelt_start_is_named_though_profiling_is_off():
    assert parse('{"strat": true}') == options.Parsed(None, ['unknown option "strat"; did you mean start?'])


def test_a_key_like_none_points_to_the_list():
    (line,) = on(**{"\ud800" * 5000: 1}).messages
    assert line.endswith("`ms-profiler options` lists them all")
    assert len(line) < 200


def test_many_bad_options_are_counted():
    parsed = on(**{f"zzz{number}": 1 for number in range(100)})
    assert len(parsed.messages) == options.MOST_MESSAGES + 1
    assert "80 more" in parsed.messages[-1]


def test_the_sample_of_the_documents_is_understood_without_a_word():
    parsed = parse(SAMPLE)
    assert parsed.messages == []
    assert parsed.options is not None
    assert parsed.options.output_path == "/XXX"
    assert parsed.options.aic_metrics == "ArithmeticUtilization"
    assert parsed.options.profiler_level == "Level1"


def test_true_and_false_as_text_are_booleans():
    parsed = parse('{"start": "true", "memory": "true", "data_simplification": "FALSE"}')
    assert parsed.messages == []
    assert parsed.options is not None
    assert parsed.options.profile_memory
    assert not parsed.options.data_simplification


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"memory": True}, "profile_memory", True),
        ({"hccl": True}, "profile_communication", True),
        ({"host_stack": True}, "with_stack", True),
        ({"timeline_limit_size": 7}, "timeline_limit", 7),
        ({"profile_framework": None}, "profile_framework", "none"),
        ({"export_type": ["db", "Kineto"]}, "export_type", ("db", "kineto")),
        ({"activities": ["cpu"]}, "activities", ("CPU",)),
        ({"max_disk": "2GB"}, "max_disk", 2 * 10**9),
        ({"dynamic": None}, "dynamic", None),
        ({"exit_timeout": 5}, "exit_timeout", 5.0),
        ({"host_sys": []}, "host_sys", ()),
    ],
)
def test_resolved(given, name, value):
    parsed = on(**given)
    assert parsed.messages == []
    assert getattr(parsed.options, name) == value
    assert name in parsed.options.given


@pytest.mark.parametrize(("number", "name"), option_types.METRIC_NUMBERS.items())
def test_metric_numbers_are_those_of_the_variable(number, name):
    parsed = on(aicore_metrics=number)
    assert parsed.messages == []
    assert parsed.options.aic_metrics == name
    assert parsed.options.profiler_level == ("Level0" if name == "None" else "Level1")


@pytest.mark.parametrize("text", ["None", "none", "AiCoreNone", "AicoreNone", None])
def test_no_metrics_is_spelt_in_many_ways(text):
    parsed = on(aic_metrics=text)
    assert (parsed.messages, parsed.options.aic_metrics) == ([], "None")


@pytest.mark.parametrize(
    ("value", "level"), [(0, "Level0"), (1, "Level1"), (2, "Level2"), ("level2", "Level2"), ("LEVEL0", "Level0")]
)
def test_levels(value, level):
    parsed = on(profiler_level=value)
    assert (parsed.messages, parsed.options.profiler_level) == ([], level)


def test_the_current_name_wins_over_the_old_one():
    assert on(memory=True, profile_memory=False).options.profile_memory is False
    assert on(profile_memory=False, memory=True).options.profile_memory is False


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"profiler_level": "LevelNone"}, "profiler_level", "Level0"),
        ({"profiler_level": -1}, "profiler_level", "Level0"),
        ({"aic_metrics": "Memory"}, "aic_metrics", "None"),
        ({"aicore_metrics": 2, "profiler_level": 0}, "aic_metrics", "None"),
        ({"profiler_level": 1, "aic_metrics": "None"}, "aic_metrics", "PipeUtilization"),
        ({"record_shapes": True, "activities": ["NPU"]}, "record_shapes", False),
        ({"data_process": True, "schedule": {"active": 1}}, "data_process", False),
        ({"mstx_domain_include": ["a"]}, "mstx_domain_include", ()),
        ({"mstx_domain_exclude": ["a"]}, "mstx_domain_exclude", ()),
        ({"mstx": True, "mstx_domain_include": ["a"], "mstx_domain_exclude": ["b"]}, "mstx_domain_exclude", ()),
    ],
)
def test_options_that_exclude_each_other_are_one_line(given, name, value):
    parsed = on(**given)
    assert getattr(parsed.options, name) == value
    (line,) = parsed.messages
    assert line.startswith(f"{name} is ")


def test_a_contradiction_with_a_default_has_no_message():
    parsed = on(profiler_level="Level1")
    assert (parsed.messages, parsed.options.aic_metrics) == ([], "PipeUtilization")
    assert on(profiler_level="LevelNone", mstx=True).messages == []


@pytest.mark.parametrize("text", ["", "{}", '{"start": true}', '{"takeover": "x"}', "[1]"])
def test_takeover_is_the_default(text):
    assert parse(text).takeover


@pytest.mark.parametrize("start", [True, False, "false", 7])
def test_takeover_false_holds_on_or_off(start):
    assert not parse(json.dumps({"start": start, "takeover": "false"})).takeover


def test_resolved_options_survive_json():
    given = {
        "schedule": {"wait": 1, "active": 2},
        "ranks": [0, 4],
        "max_memory": "1GiB",
        "profile_framework": None,
        "mstx": True,
        "mstx_domain_include": ["a"],
        "dynamic": "/f",
    }
    chosen = on(**given).options
    again = parse(json.dumps(chosen.as_dict()))
    assert again.messages == []
    assert again.options.as_dict() == chosen.as_dict()
    assert list(chosen.as_dict()) == list(OPTIONS)


def test_options_without_effect_on_a_cpu_are_named_only_if_given():
    assert options.unavailable_on_cpu(on(l2_cache=False, sync_enable=True, quiet=True).options) == []
    missing = dict(options.unavailable_on_cpu(on(l2_cache=True, hccl=True, sync_enable=False).options))
    assert list(missing) == ["l2_cache", "sync_enable", "profile_communication"]
    assert all(missing.values())


def test_the_table_has_a_row_for_every_option_with_its_old_names():
    rows = {row[0]: row for row in options.describe()}
    assert len(rows) == len(OPTIONS)
    assert rows["`timeline_limit`, `timeline_limit_size`"][1:3] == ("int", "`500`")
    assert rows["`max_disk`"][2] == '`"5GB"`'


def test_no_value_makes_it_raise():
    dice = random.Random(7)
    keys = [*OPTIONS, *(alias for option in OPTIONS.values() for alias in option.aliases), "zzz", "", "\ud800\0"]
    atoms = [None, True, False, 0, 1, -1, 10**30, 1e308, float("inf"), float("nan"), "", "true", "all", "sample:1"]
    atoms += ["\0", "\ud800", "9" * 50, "5GB", "-", ",", "0-", "\u0663", "é", "x" * 9999]

    def value(depth):
        kind = dice.randrange(8)
        if kind == 0 and depth:
            return [value(depth - 1) for _ in range(dice.randrange(4))]
        if kind == 1 and depth:
            return {dice.choice([*keys, "active", "wait"]): value(depth - 1) for _ in range(dice.randrange(4))}
        return dice.choice(atoms)

    for _ in range(3000):
        content = {dice.choice(keys): value(3) for _ in range(dice.randrange(6))} | {"start": True}
        text = json.dumps(content)
        if dice.random() < 0.3:
            place = dice.randrange(len(text))
            text = text[:place] + dice.choice(['"', "{", "]", "\0", ",", "e99", "\\u"]) + text[place + 1 :]
        parsed = parse(text)
        assert parsed.options is None or parsed.options.start
        json.dumps(parsed.options.as_dict() if parsed.options else {}, allow_nan=False)
        assert all(len(line) < 400 for line in parsed.messages)
