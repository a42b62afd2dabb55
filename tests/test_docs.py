"""Links in the documents resolve, commands run, named tests exist, and figures are measured."""

import argparse
import importlib
import json
import re
import shlex

import pytest
from conftest import ROOT
from ms_profiler import options
from ms_profiler.analysis.catalogue.csv_files import CSV_FILES
from ms_profiler.analysis.catalogue.json_files import JSON_FILES
from ms_profiler.analysis.cluster import vendor_files
from ms_profiler.cli import COMMANDS, options as options_command
from ms_profiler.store import layout
from store_builder import write_training
from test_cli import run

PAGES = sorted(
    [*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
)
#: the most lines of a README, which a visitor reads as a whole
README_LINES = 150
#: the most lines of a page about a decision
DECISION_LINES = 50

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def text_of(page):
    return page.read_text(encoding="utf-8")


def commands(page):
    """Return the commands of ms-profiler in a page: lines set off by four spaces, and code within a sentence."""
    set_off = re.findall(r"^ {4}(ms-profiler .*?)(?: +#.*)?$", text_of(page), re.MULTILINE)
    return set_off + re.findall(r"`(ms-profiler [^`]*)`", text_of(page))


def anchors(page):
    """Return the anchors of a page, which Markdown renderers make from its headings."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_the_readme_is_a_front_door():
    text = text_of(ROOT / "README.md")
    assert len(text.splitlines()) <= README_LINES
    assert len(re.findall(r"!\[", text)) == 1
    parts = ["Install", "Use", "What you get", "What it records where", "Compared with others", "Limits", "Read on"]
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == parts


@pytest.mark.parametrize("page", sorted((ROOT / "docs/decisions").glob("*.md")), ids=lambda path: path.stem)
def test_a_decision_is_a_short_page_in_three_parts(page):
    text = text_of(page)
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
    assert len(text.splitlines()) <= DECISION_LINES
    number = int(page.stem.partition("-")[0])
    title = re.match(r"# (\d+)\. (.+)\n", text)
    assert title and int(title[1]) == number
    assert f"{number}. [{title[2]}](decisions/{page.name})" in text_of(ROOT / "docs/architecture.md")


def test_the_site_has_every_page():
    listed = re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    pages = [str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def undescribed(schema, place=""):
    """Yield the paths of the keys in a JSON schema that have no description."""
    for key, value in schema.get("properties", {}).items():
        if "description" not in value and "$ref" not in value:
            yield f"{place}.{key}"
        yield from undescribed(value, f"{place}.{key}")
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("$defs", {}).values()]
    for each in [*inner, *schema.get("anyOf", []), *schema.get("oneOf", [])]:
        if isinstance(each, dict):
            yield from undescribed(each, f"{place}[]")


@pytest.mark.parametrize("path", sorted((ROOT / "agent").rglob("*.schema.json")), ids=lambda path: path.stem)
def test_a_schema_describes_each_key(path):
    assert list(undescribed(json.loads(path.read_text()))) == []


def test_every_file_of_a_result_has_a_place():
    page = text_of(ROOT / "docs/results.md")
    files = {file.name.partition(",")[0] for file in (*CSV_FILES, *JSON_FILES)}
    files |= {layout.SUMMARY, layout.REPORT, layout.TRACE_VIEW, layout.PERFETTO_TRACE, layout.COMMUNICATION_DB}
    files |= {layout.TORCH_COMMUNICATION_DB, "kineto_trace_{rank}.json", "msprof_slice_1.json"}
    files |= {layout.KINETO, layout.TABLES, layout.FRAMEWORK, vendor_files.FOLDER}
    assert [name for name in sorted(files) if name not in page] == []


def test_the_readme_says_the_same_in_both_languages():
    english, chinese = (text_of(ROOT / name) for name in ("README.md", "README.zh.md"))
    for pattern in (
        r"^#+ ",
        r"^\|",
        r"(?<!\[中文)\]\((?!README)([^)]*)\)",
        r"^ {4}(\S+)",
        r"`([^`]+)`",
        r"\bx?\d+\.\d+\b",
    ):
        first, second = (re.findall(pattern, text, re.MULTILINE) for text in (english, chinese))
        assert first and sorted(first) == sorted(second), pattern


@each_page
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", text_of(page)):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_every_page_is_reached_from_the_readme():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        page = new.pop()
        reached.add(page)
        targets = {target.partition("#")[0] for target in re.findall(r"\]\(([^)\s]+\.md[^)\s]*)\)", text_of(page))}
        new |= {(page.parent / target).resolve() for target in targets if "://" not in target} - reached
    # readers enter the site and the translation directly, not from the README
    entries = {ROOT / "docs/index.md", ROOT / "README.zh.md"}
    assert set(PAGES) - entries <= reached


@each_page
def test_tests_that_a_page_names_exist(page):
    for name, case in re.findall(r"`((?:robustness/)?test_\w+\.py)(?:::(\w+))?`", text_of(page)):
        assert (ROOT / "tests" / name).exists(), name
        assert not case or f"def {case}(" in text_of(ROOT / "tests" / name), case


def test_each_fault_has_a_test_and_each_test_of_faults_a_row():
    faults = text_of(ROOT / "docs/reliability.md").partition("## Faults and their tests")[2]
    rows = [line.split(" | ") for line in faults.splitlines() if line.startswith("| ") and not line.startswith("| **")]
    assert len(rows) > 25
    assert [row[0] for row in rows[2:] if len(row) != 4 or "test_" not in row[3]] == []
    written = {f"robustness/{path.name}" for path in (ROOT / "tests" / "robustness").glob("test_*.py")}
    assert written == set(re.findall(r"`(robustness/test_\w+\.py)`", faults))


@each_page
def test_commands_are_those_of_the_program(page):
    for line in commands(page):
        words = shlex.split(line.replace("...", ""))[1:]
        if words == ["--help"] or "select" in words[-1:]:
            continue
        assert words[0] in COMMANDS, line
        parser = argparse.ArgumentParser(exit_on_error=False)
        importlib.import_module(COMMANDS[words[0]]).add_arguments(parser)
        # A sentence may leave out options that a command needs, but each option that it names has to exist.
        known = {word for action in parser._actions for word in action.option_strings}
        named = words[1 : words.index("--")] if "--" in words else words[1:]
        assert {word for word in named if word.startswith("--")} <= known, line


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    names = {f"DIR{rank}": f"h_{rank}_20260101000000123_ascend_ms" for rank in range(2)}
    paths = {key: write_training(folder, name=name, rank=rank) for rank, (key, name) in enumerate(names.items())}
    return paths | {"DIR": paths["DIR0"]}


@each_page
def test_queries_are_answered(page, results):
    for line in commands(page):
        words = shlex.split(line)[1:]
        if words[0] != "sql" or len(words) < 3 or "..." in line:
            continue
        done = run(*(results.get(word, word) for word in words))
        assert (done.returncode, "cannot" in done.stderr) == (0, False), (line, done.stderr)


@each_page
def test_options_that_a_page_shows_are_valid(page):
    for content in re.findall(r"MS_PROFILER_OPTIONS='?(\{.*\})'?$", text_of(page), re.MULTILINE):
        json.loads(content)
        assert options.parse(content).messages == [], content


def test_the_table_of_options_is_that_of_the_code():
    """`ms-profiler options --write docs/options.md` writes the table."""
    page = text_of(ROOT / "docs/options.md")
    assert options_command.rewritten(page) == page


def test_figures_of_the_readme_are_measured():
    """Each figure in the README's comparison is in a row of the measurements."""
    measured = text_of(ROOT / "benchmarks/RESULTS.md")
    comparison = text_of(ROOT / "README.md").partition("## Compared with others")[2].partition("\n## ")[0]
    figures = re.findall(r"\bx?\d+\.\d+\b(?! GHz)", comparison)
    assert len(figures) >= 5
    assert [figure for figure in figures if figure not in measured] == []


@pytest.mark.parametrize(
    ("heading", "fact"),
    [
        ("Clock", "CUPTI takes our clock"),
        ("step_trace_time.csv", "time in which nothing was computed or communicated"),
        ("How to add a hook", "Declare its targets"),
        ("Reliability", "What happens on SIGKILL."),
        ("Compatibility", "2.13"),
    ],
)
def test_facts_are_two_clicks_from_the_readme(heading, fact):
    pages = [ROOT / "README.md"]
    for _ in range(2):
        targets = {
            (page.parent / target.partition("#")[0]).resolve()
            for page in pages
            for target in re.findall(r"\]\(([^)\s]+\.md[^)\s]*)\)", text_of(page))
            if "://" not in target
        }
        pages = sorted({*pages, *targets})
    assert any(re.search(rf"^#+ .*{heading}", text_of(page), re.MULTILINE) and fact in text_of(page) for page in pages)


def test_a_recipe_installs_into_a_directory_that_tools_know_as_not_the_jobs():
    """Hypothesis draws values from the literals of modules outside of `site-packages`."""
    recipes = (ROOT / "docs" / "recipes.md").read_text()
    targets = re.findall(r"--target,? (\S+?),? ", recipes)
    assert targets and all(target.endswith("/site-packages") for target in targets)
    (searched,) = re.findall(r'PYTHONPATH, value: "(.*?)"', recipes)
    assert searched.split(":") == [f"{targets[0]}/ms_profiler/_site", targets[0]]
