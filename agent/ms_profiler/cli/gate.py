"""`ms-profiler gate`: decide whether a job got slower, say why, and exit with the verdict."""

import argparse
import contextlib
import errno
import math
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from ms_profiler.cli.notice import say
from ms_profiler.errors import DependencyError, MsProfilerError, StoreError, UsageError
from ms_profiler.gate.errors import FailedError, IncompleteError, NotWrittenError
from ms_profiler.gate.exits import INCONCLUSIVE, MEANINGS, PASS
from ms_profiler.log import visible

NAME = "gate"
HELP = "decide whether a job got slower: 0 no, 1 yes, 3 not comparable"

DESCRIPTION = """\
Decide whether a job got slower, and say why. Three ways to name the two sides:

  ms-profiler gate --base 'python old.py' --new 'python new.py'    run both in turn, here and now
  ms-profiler gate --runs OLD1 OLD2 ... --versus NEW1 NEW2 ...     results that have been recorded
  ms-profiler gate --save base.json OLD...                         store a baseline, then
  ms-profiler gate --baseline base.json NEW...                     compare with it

Commands also serve as one side: --base 'CMD' --save FILE, or --baseline FILE --new 'CMD'.
With four runs a side or more, the median step of each run decides about time. With fewer runs, a time decides only if
it is at least --tripwire times as long. Counts and peak memory need one run."""
EPILOG = "exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in MEANINGS.items())

REPEAT = 5
TIMEOUT_S = 600.0
_STDOUT = "-"  #: in place of the path of the JSON


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    sides = parser.add_argument_group("the two sides")
    sides.add_argument("directories", nargs="*", metavar="DIR", help="results for --save or --baseline")
    sides.add_argument("--base", metavar="CMD", help="command of the base side, a line for /bin/sh")
    sides.add_argument("--new", metavar="CMD", help="command of the new side")
    sides.add_argument(
        "--repeat", type=_count, default=REPEAT, metavar="N", help="runs of each command (default: %(default)s)"
    )
    sides.add_argument(
        "--timeout",
        type=_above(0, "a number of seconds above 0"),
        default=TIMEOUT_S,
        metavar="SECONDS",
        help="longest time of a run (default: %(default)g)",
    )
    sides.add_argument("--output", metavar="DIR", help="new directory that keeps the recordings of the commands")
    sides.add_argument("--runs", nargs="+", metavar="DIR", help="results of the base side")
    sides.add_argument("--versus", nargs="+", metavar="DIR", help="results of the new side")
    sides.add_argument(
        "--save",
        metavar="FILE",
        help="store the runs as baseline; an existing one changes only if the step time passes",
    )
    sides.add_argument("--accept", action="store_true", help="with --save: replace the baseline without gating")
    sides.add_argument("--baseline", metavar="FILE", help="a stored baseline is the base side")
    rules = parser.add_argument_group("rules for slower")
    rules.add_argument(
        "--threshold",
        type=_share,
        default=0.05,
        metavar="SHARE",
        help="smallest increase of the step time that is a regression, 0.05 or 5%% (the default)",
    )
    rules.add_argument(
        "--tripwire",
        type=_above(1, "a ratio above 1 such as 1.5"),
        default=1.5,
        metavar="RATIO",
        help="with fewer than four runs a side, ratio of step times that is a regression (default: %(default)g)",
    )
    rules.add_argument("--strict", action="store_true", help=f"exit with {INCONCLUSIVE} when the runs are inconclusive")
    outputs = parser.add_argument_group("for other programs")
    outputs.add_argument("--json", metavar="FILE", help="write the verdict as JSON; - for stdout, in place of the text")
    outputs.add_argument("--junit", metavar="FILE", help="write JUnit's XML, a test case for each metric")
    outputs.add_argument("--codequality", metavar="FILE", help="write GitLab's code quality report")
    outputs.add_argument("--metrics", metavar="FILE", help="write GitLab's metrics report (OpenMetrics)")
    own = parser.add_argument_group("self-test of the gate")
    own.add_argument("--self-test", action="store_true", help="gate generated runs of known noise, and print the rates")
    own.add_argument(
        "--trials", type=_count, default=1000, metavar="N", help="trials of the self-test (default: %(default)s)"
    )
    own.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the self-test (default: %(default)s)")


def run(args: argparse.Namespace) -> int:
    """Compare the runs of an old and a new version of a job, and return the verdict as exit code.

    Raises:
        UsageError: the arguments do not say where both versions' runs come from.
        StoreError: a path that should hold results has nothing readable.
        DependencyError: a required package is not installed.
        FailedError: an unexpected error ended the gate.
    """
    try:
        import polars
    except ModuleNotFoundError as error:
        raise DependencyError(f"A gate needs Polars ({error}).") from error
    try:
        return _gate(args)
    except (MsProfilerError, MemoryError, BrokenPipeError):
        raise  # `cli.main` has a line and an exit code for each of them
    except (Exception, polars.exceptions.PanicException) as error:
        raise FailedError(error) from error


def _gate(args: argparse.Namespace) -> int:
    """Compare the runs, write the verdict, and return it as exit code."""
    if args.self_test:
        from ms_profiler.gate import trials

        trials.run(args.trials, args.seed, print)
        return PASS
    _check(args)
    from ms_profiler.gate import decide, sides
    from ms_profiler.gate.verdicts import Rules

    rules = Rules(args.threshold, args.tripwire)
    try:
        return _compared(args, rules)
    except IncompleteError as error:
        # the files must not keep the verdict of an earlier gate
        return _report(sides.Gated(decide.not_comparable([str(error)], rules)), args)


def _compared(args: argparse.Namespace, rules: Any) -> int:
    """Make or read the runs of both sides, compare them, write the verdict, and return it as exit code."""
    from ms_profiler.gate import baseline, sides

    with _recorded(args) as found:

        def read(side: str) -> list[Any]:
            launched = bool(getattr(args, side))
            return sides.read_launched(found[side]) if launched else sides.read(found[side], say)

        if args.save:
            return _save(args, read("base"), rules)
        new = read("new")
        if args.baseline:
            gated = sides.gate_stored(baseline.read(args.baseline), new, rules)
        else:
            gated = sides.gate(read("base"), new, rules)
        return _report(gated, args)


def _check(args: argparse.Namespace) -> None:
    """Raise an error before a command runs, if the arguments do not say where both versions' runs come from.

    The same holds for files that cannot be written.
    """
    from ms_profiler.gate import reports

    reports.refuse_unwritable(_files(args).values())
    if args.save:
        if args.baseline or args.runs or args.versus or args.new:
            raise UsageError("--save stores one side.", "Write `ms-profiler gate --save FILE DIR...`.")
        if bool(args.base) == bool(args.directories):
            raise UsageError("--save needs results.", "Write `ms-profiler gate --save FILE DIR...`, or --base 'CMD'.")
        folder = os.path.dirname(args.save) or "."
        try:
            os.makedirs(folder, exist_ok=True)  # an error must come now, not after the commands have run for minutes
        except OSError as error:
            raise NotWrittenError(args.save, error) from None
        if not os.access(folder, os.W_OK):
            raise NotWrittenError(args.save, PermissionError(errno.EACCES, os.strerror(errno.EACCES)))
        if os.path.isdir(args.save):
            raise NotWrittenError(args.save, IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR)))
        if os.path.exists(args.save) and not args.accept:
            _read_baseline(args.save, args, "Name another file, or replace this one with --accept.")
        return
    base = [name for name in ("base", "runs", "baseline") if getattr(args, name)]
    new = [name for name in ("new", "versus", "directories") if getattr(args, name)]
    pairs = {"base": ("new",), "runs": ("versus",), "baseline": ("directories", "new")}
    if len(base) != 1 or len(new) != 1 or new[0] not in pairs[base[0]]:
        remedy = "`ms-profiler gate --help` shows the three ways: --base and --new, --runs and --versus, --baseline."
        raise UsageError("A gate needs two sides.", remedy)
    if args.baseline:
        _read_baseline(args.baseline, args)


def _read_baseline(path: str, args: argparse.Namespace, remedy: str | None = None) -> None:
    """Raise an error now, not after the commands have run for minutes, if a baseline cannot be compared with."""
    from ms_profiler.gate import baseline
    from ms_profiler.gate.decide import refuse_low
    from ms_profiler.gate.verdicts import Rules

    try:
        stored = baseline.read(path)
    except StoreError as error:
        raise StoreError(str(error.args[0]), remedy or error.remedy) from None
    if args.base or args.new:
        refuse_low(Rules(args.threshold, args.tripwire), stored.step_times, args.repeat)


@contextlib.contextmanager
def _recorded(args: argparse.Namespace) -> Iterator[dict[str, list[str]]]:
    """Yield the result directories of the runs of both versions.

    If the arguments name commands, this function first runs them. Without --output, their results are removed at the
    end of the `with` block.
    """
    named = {"base": args.runs or [], "new": args.versus or []}
    named["base" if args.save else "new"] += args.directories
    commands = {side: command for side in named if (command := getattr(args, side))}
    if not commands:
        yield named
        return
    from ms_profiler.gate import launch

    with contextlib.ExitStack() as stack:
        if args.output is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ms_profiler_gate_"))
        else:
            folder = args.output
            _make(folder)
        yield named | launch.launch(commands, args.repeat, args.timeout, os.path.abspath(folder), say)


def _make(folder: str) -> None:
    """Make the folder of the runs; raise an error if it is not new or cannot be used."""
    remedy = "Name a new directory, because it must hold no other runs."
    try:
        os.makedirs(folder, exist_ok=True)
        used = bool(os.listdir(folder))
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.", remedy) from None
    if used:
        raise UsageError(f"{folder} is not empty.", remedy)
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder} cannot be written: {os.strerror(errno.EACCES)}.", remedy)


def _save(args: argparse.Namespace, digests: list[Any], rules: Any) -> int:
    """Store runs as a baseline. If the file has a baseline already, the runs must first pass the gate against it."""
    from ms_profiler.gate import baseline, comparable, decide, sides

    if found := comparable.reasons(digests, []):
        return _report(sides.Gated(decide.not_comparable(found, rules)), args)
    if os.path.exists(args.save) and not args.accept:
        gated = sides.gate_stored(baseline.read(args.save), digests, rules)
        code = _report(gated, args)
        if why := baseline.kept(gated.decision):
            say(f"{args.save} stays as it was: {why}")
            return code
    made = baseline.of(digests)
    baseline.write(args.save, made)
    floor = made.floor()
    held = "" if floor is None else f"; with as many new runs it can decide on a threshold of {floor:.1%}"
    if floor is not None and floor > rules.threshold:
        held += f", so gate against it with --threshold {decide.smallest_threshold(floor):g}"
    middle = statistics.median(made.step_times)
    runs = "run" if len(digests) == 1 else "runs"
    say(f"{args.save}: {len(digests)} {runs}, {middle:.6g} ms a step{held}.")
    return PASS


def _files(args: argparse.Namespace) -> dict[str, str]:
    """Return the path of each requested file, by the name of its form."""
    from ms_profiler.gate import reports

    named = {form: path for form in reports.FORMS if (path := getattr(args, form)) is not None}
    return {form: path for form, path in named.items() if (form, path) != ("json", _STDOUT)}


def _report(gated: Any, args: argparse.Namespace) -> int:
    """Write the verdict in every requested form, and return the exit code."""
    from ms_profiler.gate import document, github, reports, text

    code: int = gated.decision.exit_code(args.strict)
    content = document.of(gated.decision, code, gated.why())
    reports.write(content, _files(args), say)
    to_stdout = args.json == _STDOUT
    shown = reports.as_json(content) if to_stdout else visible("\n".join(text.lines(content)) + "\n")
    with contextlib.suppress(BrokenPipeError):  # without a reader of stdout, the exit code still tells the verdict
        print(shown, end="")
        if os.environ.get(github.ACTIONS) == "true":
            for line in github.annotations(content):
                print(line, file=sys.stderr if to_stdout else sys.stdout)
    return code


def _count(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"a number from 1 on, not {text}")
    return number


def _share(text: str) -> float:
    try:
        number = float(text[:-1]) / 100 if text.endswith("%") else float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"a share between 0 and 1 such as 0.05, or 5%, not {text}".replace("%", "%%"))
    return number


def _above(least: float, what: str) -> Callable[[str], float]:
    """Return the type of an argument that is a finite number above `least`; `what` describes it in the message."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = least
        if not (number > least and math.isfinite(number)):
            raise argparse.ArgumentTypeError(f"{what}, not {text}")
        return number

    return parse
