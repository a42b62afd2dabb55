"""Find the modules of the kernels of a backward pass from the recorded nodes of autograd (`readers.tapes`).

Autograd runs nodes in the reverse order of their creation. So the type of a kernel limits the nodes that can have
launched the kernel, as in `metrics.gradients`. But here all nodes are known, and how many gradients each node computes.
So operators without a node are not candidates. A kernel belongs to the innermost module around all nodes that can have
launched it.

If the nodes of a pass were not recorded, it gets the nodes of another pass before which the same modules were called in
the same order. If several passes fit and have different nodes, the pass gets no nodes.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from ms_profiler.analysis.metrics import gradients
from ms_profiler.analysis.metrics.alignment import OUTSIDE, Paths
from ms_profiler.analysis.metrics.gradients import SUM, Roles
from ms_profiler.analysis.metrics.recomputations import AGAIN
from ms_profiler.analysis.metrics.scopes import SEED, Scope
from ms_profiler.analysis.readers.tapes import Node, Tape
from ms_profiler.store.format import Category

#: Kernel that changes a data type. If the device does not offer a kernel for a data type, the gradient launches this
#: kernel before and after another kernel. Only the gradients of `VIEWS` never launch it.
CAST: Final = "Cast"
#: operators whose gradients launch nothing: the operators only view a tensor, or have no gradient
VIEWS: Final = "concat contiguous expanddims oneslike reshape squeeze transpose view"
#: Operator -> kernels that its gradient launches. Three kinds are left out: kernels named after the operator, matrix
#: products, and sums of gradients (if several operators read a value, a sum may follow any of their gradients). The
#: gradient of an unlisted operator may launch anything. The list was measured with MindSpore 2.10 for CPU, with
#: synchronous kernels. The kernels of a node are those that ran between the hook before this node and the hook before
#: the next node. The measurement covered 661 calls of operators, with broadcasting and along several axes: most calls
#: in float32, some in float16, float64 and mixed types. It also covered 20 networks, two of them in float16. `lstm` ran
#: only in one of these networks, in float32.
EMITS: Final[dict[str, frozenset[str]]] = {
    key: frozenset([*kernels.split(), *([] if keys == VIEWS else [CAST])])
    for keys, kernels in (
        ("add", "Mul ReduceSum"),
        ("sub", "Neg Mul ReduceSum"),
        ("mul", "Mul ReduceSum"),
        ("muls exp", "Mul"),
        ("div", "Div Neg Mul ReduceSum"),
        ("divs log", "Div"),
        ("sum", "Tile"),
        ("mean", "Tile Div"),
        ("reducemean", "Tile RealDiv"),
        ("reducemax", "Equal ReduceSum Div Mul"),
        ("maskedfill", "MaskedFill Select ReduceSum"),
        ("neg", "Neg"),
        ("silu", "Sigmoid Mul SigmoidGrad AddExt"),
        ("gather", "Range Add UnsortedSegmentSum"),
        ("selectview", "UnsortedSegmentSum"),
        ("lstm", "Zeros"),
        ("matmul", "ReduceSum"),
        ("batchmatmul batchnorm biasadd conv2d dropout gatherd gelu layernorm relu softmax stridedslice tanh", ""),
        (VIEWS, ""),
    )
    for key in keys.split()
}
#: operators whose gradient launches nothing but casts before its main kernel, which is named after the operator, or is
#: typical of it
FIRST: Final = frozenset(
    {"batchmatmul", "batchnorm", "biasadd", "conv2d", "dropout", "gatherd", "gelu", "layernorm", "matmul", "relu"}
)
#: `Known.trailing` examines up to this number of kernels after the last known kernel of a pass
MOST: Final = 8
#: result of `Known.owned`: `place` of the kernel, path of its module, and whether the kernel is a recomputation
OWNED: Final = pl.Schema({"place": pl.UInt32, "module": pl.String, "again": pl.Boolean})
#: result of `Known.trailing`: `place` of the kernel, and row of the span of its backward pass
TRAILING: Final = pl.Schema({"place": pl.UInt32, "backward": pl.UInt32})


@dataclass(frozen=True)
class Known:
    """The nodes of backward passes.

    Attributes:
        tapes: the recorded lists of autograd's nodes of the process (`readers.tapes`). A list, called tape, has the
            nodes of one pass.
        passes: the passes with known nodes: `backward` (row of the pass's span), `tape` (index in `tapes`), `scripted`
            (whether the script computes gradients itself).
    """

    tapes: list[Tape]
    passes: pl.DataFrame

    @classmethod
    def of(cls, tapes: list[Tape], passes: pl.DataFrame, spans: pl.DataFrame) -> "Known":
        """Assign tapes (recorded lists of autograd's nodes) to backward passes, and return the known nodes.

        Args:
            tapes: the tapes of the process.
            passes: all backward passes: `backward`, `start_ns`, `scripted`, sorted by start.
            spans: the spans of the stepping thread.
        """
        if not tapes or passes.is_empty():
            return cls(tapes, passes.select("backward", "scripted", tape=pl.lit(0, pl.UInt32)).clear())
        keyed = passes.with_columns(_called(passes, spans)).with_row_index("number")
        begun = pl.Series([tape.time_ns for tape in tapes])
        number = keyed["start_ns"].search_sorted(begun, side="left")
        own: dict[int, int] = {each: place for place, each in enumerate(number) if each < keyed.height}
        by_key: dict[tuple[int | None, int], int | None] = {}
        for each, place in own.items():
            key = (keyed["key"][each], keyed["nth"][each])
            before = by_key.get(key, place)
            same = before is not None and tapes[before].nodes == tapes[place].nodes
            by_key[key] = place if same else None
        found = [
            own.get(each, by_key.get((key, nth))) for each, key, nth in keyed.select("number", "key", "nth").iter_rows()
        ]
        return cls(
            tapes,
            keyed.select("backward", "scripted", pl.Series("tape", found, dtype=pl.UInt32)).drop_nulls("tape"),
        )

    def owned(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return the modules of kernels of backward passes, with the columns of `OWNED`.

        The module is null if the nodes do not show it.

        Args:
            kernels: the kernels of backward passes of one lane, in the lane's order: `place` (identifies the kernel
                in the result), `kernel`, `backward`.
            scopes: the parsed names of kernels; the column `kernel` is an index of this list.
        """
        ran = kernels.join(self.passes, on="backward", maintain_order="left").with_columns(
            position=pl.int_range(pl.len()).over("backward")
        )
        seeds = [row for row, scope in enumerate(scopes) if scope.type == SEED]
        ran = ran.filter((pl.col("position") > 0) | ~pl.col("kernel").is_in(seeds))
        if ran.is_empty():
            return pl.DataFrame(schema=OWNED)
        # most passes run the same kernels for the same nodes, so only one pass of each kind is examined
        kinds = ran.group_by("backward", maintain_order=True).agg(
            pl.col("tape", "scripted").first(),
            pl.struct("kernel", "position").hash(7).sum().alias("hash"),
            count=pl.len(),
        )
        kinds = kinds.with_columns(chosen=pl.col("backward").first().over("tape", "scripted", "hash", "count"))
        chosen = ran.join(kinds.select(backward="chosen").unique(), on="backward", how="semi", maintain_order="left")
        bound = self._bound(chosen, scopes)
        return (
            ran.join(kinds.select("backward", "chosen"), on="backward", maintain_order="left")
            .join(bound, on=["chosen", "position"], maintain_order="left")
            .select(OWNED.names())
        )

    def _bound(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Find the modules of kernels in backward passes; return `chosen` (the pass), `position`, `module`, `again`.

        Args:
            kernels: `kernel`, `position`, `backward`, `tape`, `scripted`, sorted by pass.
            scopes: the parsed names of kernels; `kernel` is an index of this list.
        """
        roles = {row: _kernel_role(scopes[row]) for row in kernels["kernel"].unique()}
        numbers: dict[tuple[str, int, int, frozenset[str]], int] = {}
        frames, begins, since = [], [], 0
        for part in kernels.partition_by("backward", maintain_order=True):
            backward, tape, scripted = part.select("backward", "tape", "scripted").row(0)
            nodes = self.tapes[tape].nodes
            never = _settled(nodes, [roles[row] for row in part["kernel"]])
            known = _known_names(nodes)
            adds = any(node.name == SUM for node in nodes)
            keys = [(node.name, node.wanted, node.summed, _never(node, known, never, adds)) for node in nodes]
            made = [numbers.setdefault(key, len(scopes) + len(numbers)) for key in keys]
            frames += [_rows(made), part.select("position", "kernel", "backward")]
            begins.append((backward, since, scripted, tape))
            since += len(nodes) + part.height
        for (name, wanted, summed, never), row in numbers.items():
            key = gradients.known_by(name)
            roles[row] = Roles(None, None, key, products=wanted, summed=summed, emits=EMITS.get(key), never=never)
        table = pl.concat(frames)
        schema = {"backward": pl.UInt32, "begin": pl.Int64, "scripted": pl.Boolean, "tape": pl.UInt32}
        begun = pl.DataFrame(begins, schema=schema, orient="row")
        bounds = gradients.between(table.select("kernel", "backward"), begun.drop("tape"), roles)
        free = [row for row, role in roles.items() if role.free]
        bounded = bounds.join(begun, on="backward", maintain_order="left").select(
            table["position"].gather(bounds["row"]),
            "tape",
            chosen="backward",
            free=table["kernel"].gather(bounds["row"]).is_in(free),
            cast=table["kernel"].gather(bounds["row"]).is_in([row for row in free if roles[row].type == CAST]),
            kind=table["kernel"].gather(bounds["first"]),
            first=pl.col("first") - pl.col("begin"),
            last=pl.col("last") - pl.col("begin"),
        )
        bounded = _before(bounded, [row for row, role in roles.items() if role.key in FIRST])
        modules = self._modules(bounded.select("tape", "first", "last").unique())
        return bounded.join(modules, on=["tape", "first", "last"], maintain_order="left").select(
            "chosen", "position", "module", "again"
        )

    def trailing(self, kernels: pl.DataFrame, scopes: list[Scope]) -> pl.DataFrame:
        """Return kernels that belong to a pass although they ran after its last known kernel, as `TRAILING`.

        When the host leaves a pass, the last kernels of the pass may not have run yet. So a later kernel belongs to the
        pass as long as nodes of the pass still lack a kernel of its type.

        Args:
            kernels: `place`, `kernel`, `backward`, `loose` (whether the module is unknown), of one lane, in order.
            scopes: the parsed names of kernels; the column `kernel` is an index of this list.
        """
        rows = kernels.select("kernel", "backward").with_row_index("row").join(self.passes, on="backward")
        found: list[tuple[int, int]] = []
        for backward, tape, last, ran in (
            rows.group_by("backward", "tape").agg(pl.col("row").max(), "kernel").iter_rows()
        ):
            left: dict[str, int] | None = None
            for place, kernel, loose in kernels.select("place", "kernel", "loose").slice(last + 1, MOST).iter_rows():
                role = Roles.of(scopes[kernel])
                if not loose or role.family is None:
                    break
                left = self._left(tape, [Roles.of(scopes[each]) for each in ran]) if left is None else left
                if left.get(role.family, 0) <= 0:
                    break
                left[role.family] -= 1
                found.append((place, backward))
        return pl.DataFrame(found, schema=TRAILING, orient="row")

    def _left(self, tape: int, ran: list[Roles]) -> dict[str, int]:
        """Return for each family of matrix products how many of its kernels a pass still has to run."""
        products = [
            node.wanted for node in self.tapes[tape].nodes if gradients.known_by(node.name) in gradients.PRODUCTS
        ]
        return {gradients.MATMUL: sum(products) - sum(role.family == gradients.MATMUL for role in ran)}

    def _modules(self, ranges: pl.DataFrame) -> pl.DataFrame:
        """Add two columns about the nodes from `first` to `last`.

        `module` is the innermost module around all these nodes. `again` is true if all of them are recomputations.
        """
        paths = Paths([])
        rows: dict[int, list[int]] = {}
        found, again = [], []
        for tape, first, last in ranges.iter_rows():
            if tape not in rows:
                rows[tape] = [_number(paths, node) for node in self.tapes[tape].nodes]
            module = rows[tape][first]
            for other in rows[tape][first + 1 : last + 1]:
                if module < 0:
                    break
                module = paths.common(module, other)
            found.append(paths.texts[module] if module >= 0 else None)
            again.append(all(node.name == AGAIN for node in self.tapes[tape].nodes[first : last + 1]))
        return ranges.with_columns(
            pl.Series("module", found, dtype=pl.String), pl.Series("again", again, dtype=pl.Boolean)
        )


def _before(bounded: pl.DataFrame, kinds: list[int]) -> pl.DataFrame:
    """Narrow the bounds of kernels that ran before the kernel that is named after a node.

    A node launches nothing but casts before the kernel that is named after it. So if other kernels ran before that
    kernel, a node that ran earlier launched them. This is right only for the nodes in `kinds`. The bounds of casts stay
    as they are.

    Args:
        bounded: kernels of passes, in order, with their bounds, `free`, `cast` and `kind` (row of the node's name).
        kinds: rows of the names of the nodes for which this is right.
    """
    sure = (pl.col("first") == pl.col("last")) & ~pl.col("free") & pl.col("kind").is_in(kinds)
    behind = pl.when(sure).then(pl.col("first") + 1).backward_fill().shift(-1).over("chosen")
    loose = pl.col("free") & ~pl.col("cast")
    moved = pl.max_horizontal("first", pl.when(loose & (behind <= pl.col("last"))).then(behind))
    return bounded.with_columns(first=moved)


def _kernel_role(scope: Scope) -> Roles:
    """Return the role of a kernel; the role is `free` if several operators may launch the kernel."""
    role = replace(Roles.of(scope), type=scope.type)
    if role.expanded:
        return replace(role, type="")  # only the operator that MindSpore expanded launches it
    if role.stem is not None or role.family == gradients.MATMUL:
        return role
    return replace(role, family=_any(scope.type), free=True)


def _known_names(nodes: tuple[Node, ...]) -> set[str]:
    return {node.name for node in nodes if gradients.known_by(node.name) in EMITS}


def _never(node: Node, known: set[str], settled: frozenset[str], adds: bool) -> frozenset[str]:
    """Return the families of kernels that a node never launches.

    Args:
        node: the node.
        known: names of the nodes that `EMITS` lists.
        settled: families of kernels that only their own nodes launched, from `_settled`.
        adds: whether a node of the pass is named `SUM`; a node that recomputes may then launch `SUM` kernels again.
    """
    if node.name in known:
        return frozenset()
    return settled if node.name != AGAIN or node.summed or adds else settled | {_any(SUM)}


def _any(type: str) -> str:
    """Return the name of the family of kernels of one type, for kernels that are not named after an operator."""
    return f"any {type}"


def _settled(nodes: tuple[Node, ...], ran: list[Roles]) -> frozenset[str]:
    """Return the families of kernels that only their own nodes launched: these nodes account for all their kernels."""
    products = sum(node.wanted for node in nodes if gradients.known_by(node.name) in gradients.PRODUCTS)
    made = Counter(gradients.known_by(node.name) for node in nodes)
    counts = Counter(role.family for role in ran)
    stems = {role.family: role.stem for role in ran if role.stem is not None and not role.expanded}
    found = {family for family, stem in stems.items() if stem in EMITS and counts[family] == made[stem]}
    if counts[gradients.MATMUL] == products:
        found.add(gradients.MATMUL)
    return frozenset(family for family in found if family)


def _number(paths: Paths, node: Node) -> int:
    return OUTSIDE if node.module is None else paths.number(node.module)


def _rows(made: list[int]) -> pl.DataFrame:
    nothing = pl.lit(None, pl.UInt32)
    return pl.DataFrame({"kernel": made}, schema={"kernel": pl.UInt32}).select(
        pl.lit(None, pl.Int64).alias("position"), "kernel", nothing.alias("backward")
    )


def _called(passes: pl.DataFrame, spans: pl.DataFrame) -> list[pl.Series]:
    """Return two columns for each pass, which identify passes with equal calls before them: `key` and `nth`.

    `key` is a hash of the last modules that were called before the pass. `nth` is the number of passes between these
    calls and the pass.
    """
    modules = spans.filter(pl.col("category") == int(Category.MODULE)).sort("start_ns").select("name", "start_ns")
    row = passes["start_ns"].search_sorted(modules["start_ns"], side="right")
    counted = modules.with_columns(number=row).with_columns(pl.int_range(pl.len()).over("number").alias("place"))
    keys = counted.group_by("number").agg(pl.struct("name", "place").hash(7).sum().alias("key"))
    numbers = passes.select(pl.int_range(pl.len(), dtype=pl.UInt32).alias("number"))
    own = numbers.join(keys, on="number", how="left", maintain_order="left")
    nth = pl.int_range(pl.len()).over(pl.col("key").is_not_null().cum_sum())
    return own.select(pl.col("key").forward_fill().fill_null(0), nth.alias("nth")).get_columns()
