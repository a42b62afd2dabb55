"""Networks in which each part has sizes that no other part has, for `planted_owners.py` and its first argument."""

import importlib
import sys
from itertools import pairwise

import mindspore as ms
from mindspore import nn, ops

mode = sys.argv[1]
#: sizes that all cells of a network share
BATCH, TOKENS, WIDTH, CLASSES = 4 if mode == "graph" else 64, 6, 32, 3
planted = {}
pairs = []
sizes = (number for number in range(37, 10_000) if number % 2 and all(number % prime for prime in (3, 5, 7)))


def size(path, least=0):
    """Return a size of at least `least` that no other part has, and note that it belongs to the part `path`."""
    found = next(number for number in sizes if number >= least)
    planted[found] = path
    return found


class Block(nn.Cell):
    def __init__(self, inner):
        super().__init__()
        self.norm = nn.LayerNorm((WIDTH,))
        self.up = nn.Dense(WIDTH, inner)
        self.act = nn.GELU()
        self.down = nn.Dense(inner, WIDTH)

    def construct(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Chain(nn.Cell):
    """A stem, a sequence of blocks, and a head."""

    def __init__(self, blocks, width=WIDTH):
        super().__init__()
        self.stem = nn.Dense(16, width)
        self.blocks = nn.SequentialCell(*blocks)
        self.head = nn.Dense(width, CLASSES)

    def construct(self, x):
        return self.head(self.blocks(self.stem(x)))


class Attention(nn.Cell):
    def __init__(self, inner, values):
        super().__init__()
        self.query, self.key = nn.Dense(WIDTH, inner), nn.Dense(WIDTH, inner)
        self.value, self.out = nn.Dense(WIDTH, values), nn.Dense(values, WIDTH)
        self.drop = nn.Dropout(p=0.1)

    def construct(self, x):
        scores = ops.matmul(self.query(x), self.key(x).swapaxes(-1, -2)) / 8.0
        return self.out(ops.matmul(self.drop(ops.softmax(scores, -1)), self.value(x)))


class Layer(nn.Cell):
    def __init__(self, path):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm((WIDTH,)), nn.LayerNorm((WIDTH,))
        self.attention = Attention(size(f"{path}.attention"), size(f"{path}.attention"))
        inner = size(path)
        self.inner, self.outer = nn.Dense(WIDTH, inner), nn.Dense(inner, WIDTH)
        self.act, self.drop = nn.GELU(), nn.Dropout(p=0.1)

    def construct(self, x):
        x = x + self.drop(self.attention(self.norm1(x)))
        return x + self.drop(self.outer(self.act(self.inner(self.norm2(x)))))


class Step(nn.Cell):
    """A dense layer that changes the width, so that the last layers of a block identify the block."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.dense, self.norm, self.act = nn.Dense(inputs, outputs), nn.LayerNorm((outputs,)), nn.ReLU()
        self.drop = nn.Dropout(p=0.2)

    def construct(self, x):
        return self.drop(self.act(self.norm(self.dense(x))))


class Shared(nn.Cell):
    """Two blocks; the first one runs again after the second one."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(16, WIDTH)
        self.first, self.second = Block(size("first")), Block(size("second"))
        self.head = nn.Dense(WIDTH, CLASSES)

    def construct(self, x):
        return self.head(ops.relu(self.first(ops.relu(self.second(ops.relu(self.first(self.stem(x))))))))


class Twice(nn.Cell):
    """A layer that is called twice, with other layers between."""

    def __init__(self):
        super().__init__()
        one, two = size("again"), size("other.1")
        self.start = nn.Dense(16, one)
        self.again = nn.Dense(one, one)
        self.other = nn.SequentialCell(nn.Dense(one, one), nn.Dense(one, two), nn.ReLU(), nn.Dense(two, one))
        planted.pop(one)
        planted[two] = "other"
        self.act = nn.ReLU()
        self.head = nn.Dense(one, CLASSES)

    def construct(self, x):
        x = self.act(self.again(self.start(x)))
        return self.head(self.act(self.again(self.other(x))))


class TwoLosses(nn.Cell):
    def __init__(self):
        super().__init__()
        self.trunk = nn.SequentialCell(Block(size("trunk.0")), Block(size("trunk.1")))
        self.stem = nn.Dense(16, WIDTH)
        inner = size("side")
        self.side = nn.SequentialCell(nn.Dense(WIDTH, inner), nn.Tanh(), nn.Dense(inner, CLASSES))
        inner = size("main")
        self.main = nn.SequentialCell(nn.Dense(WIDTH, inner), nn.Tanh(), nn.Dense(inner, CLASSES))

    def construct(self, x):
        x = self.trunk[0](self.stem(x))
        return self.main(self.trunk[1](x)), self.side(x)


class Residual(nn.Cell):
    """A basic block of ResNet whose inner width is different from its outer widths."""

    def __init__(self, inputs, outputs, inner, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, inner, 3, stride), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, outputs, 3), nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU()
        self.down = None
        if stride != 1 or inputs != outputs:
            self.down = nn.SequentialCell(nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))

    def construct(self, x):
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.down is None else self.down(x)))


class ResNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.stem = nn.SequentialCell(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU())
        blocks, inputs = [], 16
        for number in range(5):
            # a block with an odd number does not change the width, so it shares its outer width with the block before
            # it
            outputs = inputs if number % 2 else size(f"blocks.{number}")
            blocks.append(Residual(inputs, outputs, size(f"blocks.{number}"), 1 if number % 2 else 2))
            if not number % 2:
                planted[outputs] = None  # the next block has this width, too, so the width identifies no block
            inputs = outputs
        self.blocks = nn.SequentialCell(*blocks)
        self.head = nn.Dense(inputs, CLASSES)

    def construct(self, x):
        return self.head(ops.mean(self.blocks(self.stem(x)), (2, 3)))


class Recurrent(nn.Cell):
    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(16, WIDTH)
        one, two = size("first"), size("second")
        self.first, self.second = nn.LSTM(WIDTH, one, batch_first=True), nn.LSTM(one, two, batch_first=True)
        planted[one] = None
        self.head = nn.Dense(two, CLASSES)
        planted[two] = None
        inner = size("last")
        self.last = nn.SequentialCell(nn.Dense(CLASSES, inner), nn.Dense(inner, CLASSES))

    def construct(self, x):
        x, _ = self.second(self.first(self.stem(x))[0])
        return self.last(self.head(x[:, -1]))


class Experts(nn.Cell):
    """A mixture of experts in which each expert computes all rows."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(16, WIDTH)
        inner = size("gate")
        self.gate = nn.SequentialCell(nn.Dense(WIDTH, inner), nn.Tanh(), nn.Dense(inner, 4), nn.Softmax())
        self.experts = nn.CellList([Block(size(f"experts.{number}")) for number in range(4)])
        self.head = nn.Dense(WIDTH, CLASSES)

    def construct(self, x):
        x = self.stem(x)
        weights = self.gate(x)
        mixed = 0
        for number, expert in enumerate(self.experts):
            mixed = mixed + expert(x) * weights[:, number : number + 1]
        return self.head(mixed)


class Swish(nn.Cell):
    """An activation that computes its gradient itself."""

    def construct(self, x):
        return x * ops.sigmoid(x)

    def bprop(self, x, out, dout):
        gate = ops.sigmoid(x)
        return (dout * (gate + x * gate * (1 - gate)),)


class Own(Block):
    def __init__(self, inner):
        super().__init__(inner)
        self.act = Swish()


class Tied(nn.Cell):
    """A network whose last layer multiplies by the table of its embedding."""

    def __init__(self):
        super().__init__()
        self.words = size("embedding")
        planted[self.words] = None
        self.embedding = nn.Embedding(self.words, WIDTH)
        self.layers = nn.SequentialCell(*[Block(size(f"layers.{number}")) for number in range(2)])
        self.head = nn.Dense(self.words, CLASSES)

    def construct(self, tokens):
        x = self.layers(self.embedding(tokens))
        x = ops.matmul(x, self.embedding.embedding_table.T)
        return self.head(ops.mean(x, 1))


class Inserted(nn.Cell):
    """Layers in one sequence, and blocks that are added as attributes with other names."""

    def __init__(self):
        super().__init__()
        layers, inputs = [], 16
        for number in range(6):
            outputs = size(f"features.{3 * number}")
            planted[outputs] = None
            layers += [nn.Dense(inputs, outputs), nn.LayerNorm((outputs,)), nn.ReLU()]
            inputs = outputs
        self.features = nn.SequentialCell(layers)
        for number in range(2):
            setattr(self, f"tail{number}", Block0(inputs, size(f"tail{number}")))
        self.head = nn.Dense(inputs, CLASSES)

    def construct(self, x):
        x = self.features(x)
        return self.head(self.tail1(self.tail0(x)))


class Block0(nn.Cell):
    def __init__(self, width, inner):
        super().__init__()
        self.up, self.act, self.down = nn.Dense(width, inner), nn.SiLU(), nn.Dense(inner, width)

    def construct(self, x):
        return x + self.down(self.act(self.up(x)))


def recomputed(**how):
    net = Chain([Block(size(f"blocks.{number}")) for number in range(4)])
    for block in list(net.blocks)[:3]:
        block.recompute(**how)
    return net


class Again(Chain):
    """Two blocks that a call recomputes, and a recomputed pair of blocks with a recomputed block in it."""

    def __init__(self):
        pair = nn.SequentialCell(Block(size("blocks.2.0")), Block(size("blocks.2.1")))
        super().__init__([Block(size("blocks.0")), Block(size("blocks.1")), pair])
        pair[1].recompute()
        pair.recompute()

    def construct(self, x):
        x = self.stem(x)
        for block in list(self.blocks)[:2]:
            x = ms.recompute(block, x)
        return self.head(self.blocks[2](x))


def stepped():
    widths = [WIDTH, *(size(f"blocks.{number}") for number in range(4))]
    net = Chain([Step(*pair) for pair in pairwise(widths)], WIDTH)
    net.head = nn.Dense(widths[-1], CLASSES)
    # the operator that reads a block's output has the block's width, too, so the width identifies no block
    for number, width in enumerate(widths[1:]):
        planted[width] = f"blocks.{number}" if number == 99 else None
    return net


class Branches(nn.Cell):
    """A network in which values determine the operators and their number."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Dense(16, WIDTH)
        self.often, self.here, self.there = (Block(size(name)) for name in ("often", "here", "there"))
        self.head = nn.Dense(WIDTH, CLASSES)

    def construct(self, x):
        x = self.stem(x)
        count = ops.zeros((), ms.int32)
        while count < 2:
            x = self.often(x)
            count = count + 1
        x = self.here(x) if ops.mean(x) < 1e6 else self.there(x)
        return self.head(x)


class Tokens(nn.Cell):
    def __init__(self, layers):
        super().__init__()
        self.net = Chain([Layer(f"blocks.{number}") for number in range(layers)])

    def construct(self, x):
        return ops.mean(self.net(x), 1)


def of_mindcv(name, kind, **sizes):
    """Return a network of mindcv; a weight with a unique shape identifies the module of a kernel."""
    net = getattr(importlib.import_module(f"mindcv.models.{name}"), kind)(num_classes=CLASSES, **sizes)
    held = {}
    for weight, parameter in net.parameters_and_names():
        held.setdefault(",".join(map(str, parameter.shape)), []).append(weight.rpartition(".")[0])
    planted.update({shape: paths[0] for shape, paths in held.items() if len(paths) == 1 and "," in shape})
    return net


def paired():
    """Return one of two networks of the same class; the paths of its parts begin with the network's title."""
    title = ("TrainOneStepCell{}.network._backbone" if mode == "graph" else "Chain{}").format("#2" if pairs else "")
    path = title if pairs or mode != "graph" else "network._backbone"
    pairs.append(Chain([Block(size(f"{path}.blocks.{number}")) for number in range(2)]))
    return pairs[-1]


def wide():
    return Chain([Block(size(f"blocks.{number}", least)) for number, least in enumerate((136, 152, 2056, 168))])


NETWORKS = {
    "blocks": wide,
    "layers": lambda: nn.SequentialCell(nn.Dense(16, WIDTH), *(nn.Dense(WIDTH, WIDTH) for _ in range(9))),
    "transformer": lambda: Tokens(12),
    "small": lambda: Tokens(2),
    "steps": stepped,
    "shared": Shared,
    "twice": Twice,
    "recompute": recomputed,
    "saved": lambda: recomputed(use_reentrant=False),
    "again": Again,
    "losses": TwoLosses,
    "resnet": ResNet,
    "lstm": Recurrent,
    "experts": Experts,
    "own": lambda: Chain([Own(size("blocks.0")), Block(size("blocks.1")), Own(size("blocks.2"))]),
    "tied": Tied,
    "inserted": Inserted,
    "accumulate": wide,
    "branches": Branches,
    "pair": paired,
    "densenet": lambda: of_mindcv("densenet", "DenseNet", growth_rate=16, block_config=(2, 3, 2, 2)),
    "mobilenet": lambda: of_mindcv("mobilenetv3", "MobileNetV3", arch="small", alpha=0.75),
    "residual": lambda: of_mindcv("resnet", "resnet18"),
    "vision": lambda: of_mindcv(
        "vit", "VisionTransformer", image_size=32, patch_size=8, embed_dim=48, depth=3, num_heads=3
    ),
}
SHAPES = {
    "transformer": (BATCH, TOKENS, 16),
    "small": (BATCH, TOKENS, 16),
    "lstm": (BATCH, TOKENS, 16),
    "resnet": (BATCH, 3, 16, 16),
    "vision": (4, 3, 32, 32),
    **dict.fromkeys(("densenet", "mobilenet", "residual"), (4, 3, 64, 64)),
}
