"""Networks whose modules cannot be told apart by time, and functions that return a training step of such a network.

usage: planted_networks.py NAME [STEPS]
"""

import sys
import types

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Feed(nn.Module):
    """A feed-forward block: norm, two linear layers, dropout, and the input added at the end."""

    def __init__(self, width, hidden):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.drop(self.down(functional.gelu(self.up(self.norm(x)))))


class Blocks(nn.Module):
    """A sequence of feed-forward blocks with different inner widths, and a head."""

    def __init__(self, hidden, width=32):
        super().__init__()
        self.blocks = nn.ModuleList([Feed(width, each) for each in hidden])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Other(Blocks):
    """A network like `Blocks` with another class name."""


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        size = width // self.heads
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4).unbind(0)
        weights = self.drop((q * size**-0.5 @ k.transpose(-2, -1)).softmax(-1))
        return self.drop(self.proj((weights @ v).transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.norm, self.attention, self.feed = nn.LayerNorm(width), Attention(width, heads), Feed(width, 64)

    def forward(self, x):
        return self.feed(x + self.attention(self.norm(x)))


class Transformer(nn.Module):
    """A transformer of equal blocks, whose head shares the weights of the embedding."""

    def __init__(self, count=12, again=None, frozen=0, width=32):
        super().__init__()
        self.embedding, self.place = nn.Embedding(50, width), nn.Parameter(torch.zeros(8, width))
        self.blocks = nn.ModuleList([Block(width) for _ in range(count)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 50, bias=False)
        self.head.weight, self.again = self.embedding.weight, again
        if frozen:
            self.requires_grad_(False)
            self.blocks[frozen:].requires_grad_(True)

    def forward(self, tokens):
        x = self.embedding(tokens) + self.place
        for block in self.blocks:
            x = block(x) if self.again is None else checkpoint(block, x, use_reentrant=self.again)
        return self.head(self.norm(x))


class Twice(nn.Module):
    """A network that calls one of its modules twice."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = Feed(32, 64), Feed(32, 96), nn.Linear(32, 4)

    def forward(self, x):
        return self.head(self.first(self.second(self.first(x))))


class Residual(nn.Module):
    def __init__(self, into, out, stride):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out))
        self.short = nn.Conv2d(into, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return functional.relu(self.second(self.first(x)) + self.short(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.layers = nn.Sequential(Residual(8, 8, 1), Residual(8, 16, 2), Residual(16, 16, 1), Residual(16, 32, 2))
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(functional.adaptive_avg_pool2d(self.layers(self.stem(x)), 1).flatten(1))


class Recurrent(nn.Module):
    """A network with a recurrent layer, and with a recurrent cell in a loop."""

    def __init__(self):
        super().__init__()
        self.embedding, self.layers = nn.Embedding(50, 32), nn.LSTM(32, 64, 2, batch_first=True)
        self.cell, self.head = nn.LSTMCell(64, 32), nn.Linear(32, 50)

    def forward(self, tokens):
        x, _ = self.layers(self.embedding(tokens))
        state, found = None, []
        for place in range(x.shape[1]):
            state = self.cell(x[:, place], state)
            found.append(state[0])
        return self.head(torch.stack(found, 1))


class Experts(nn.Module):
    """A mixture of four experts, whose gate sends each row to two of them."""

    def __init__(self):
        super().__init__()
        self.gate, self.head = nn.Linear(32, 4), nn.Linear(32, 10)
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)) for _ in range(4)])

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            row, place = (chosen == number).nonzero(as_tuple=True)
            if len(row):
                y = y.index_add(0, row, expert(x[row]) * weights[row, place, None])
        return self.head(x + y)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x * x * gradient


class Custom(nn.Module):
    """A network with an autograd function of the script's own and with an operator that works in place."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.head(Cube.apply(self.second(Cube.apply(torch.tanh(self.first(x))).clamp_(-1, 1))))


class Layers(nn.Module):
    """A sequence of the given layers; the name of a subclass is the name of the network."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)


class Maker(Layers):
    pass


class Judge(Layers):
    pass


class Teacher(Blocks):
    pass


def entropy(y):
    return functional.cross_entropy(y.reshape(-1, y.shape[-1]), torch.zeros(y.numel() // y.shape[-1], dtype=torch.long))


def square(y):
    return y.square().mean()


def trained(model, x, loss=entropy, passes=1):
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)

    def step():
        for _ in range(passes):
            loss(model(x)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def losses(shared):
    """Return a step with two losses and two backward passes; with `shared`, two networks have equal layers."""
    trunk, one, two = Feed(32, 48), Blocks([64, 128]), Other([64, 128]) if shared else Judge(nn.Linear(32, 10))

    def step():
        x = trunk(torch.randn(16, 32))
        first, second = entropy(one(x)), entropy(two(x))
        first.backward(retain_graph=True)
        second.backward()

    return step


def adversaries():
    maker = Maker(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.Tanh())
    judge = Judge(nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    loss, real = functional.binary_cross_entropy_with_logits, torch.randn(16, 32)

    def step():
        made = maker(torch.randn(16, 8))
        (loss(judge(real), torch.ones(16, 1)) + loss(judge(made.detach()), torch.zeros(16, 1))).backward()
        loss(judge(made), torch.ones(16, 1)).backward()

    return step


def taught():
    """Return a step in which a similar network without gradients runs between forward and backward pass."""
    model, teacher, x = Blocks([64, 128]), Teacher([64, 128]), torch.randn(16, 32)

    def step():
        y = model(x)
        with torch.no_grad():
            aim = teacher(x)
        functional.mse_loss(y, aim).backward()

    return step


def rollouts():
    policy, value, x = Blocks([64, 64]), Other([48]), torch.randn(16, 32)

    def step():
        for _ in range(4):
            with torch.no_grad():
                policy(x)
                value(x)
        for _ in range(2):
            (entropy(policy(x)) + square(value(x))).backward()

    return step


def of_timm(name, size):
    """Return the step of a timm network, without torchvision's operators, which this network does not need."""
    sys.modules.setdefault("torchvision._meta_registrations", types.ModuleType("torchvision._meta_registrations"))
    import timm

    sized = {"img_size": size} if "vit" in name else {}
    return trained(timm.create_model(name, num_classes=10, **sized), torch.randn(2, 3, size, size))


def step_of(name):
    torch.manual_seed(0)
    tokens, rows, images = torch.randint(50, (4, 8)), torch.randn(16, 32), torch.randn(4, 3, 16, 16)
    made = {
        "blocks": lambda: trained(Blocks([64, 128, 1024, 96]), rows),
        "heavy": lambda: trained(Blocks([64, 128, 4096, 96], 128), torch.randn(128, 128)),
        "transformer": lambda: trained(Transformer(), tokens),
        "frozen": lambda: trained(Transformer(6, frozen=3), tokens),
        "reentrant": lambda: trained(Transformer(4, again=True), tokens),
        "recomputed": lambda: trained(Transformer(4, again=False), tokens),
        "encoder": lambda: trained(
            nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 4),
            torch.randn(2, 8, 32),
            square,
        ),
        "twice": lambda: trained(Twice(), rows),
        "resnet": lambda: trained(ResNet(), images),
        "recurrent": lambda: trained(Recurrent(), tokens),
        "experts": lambda: trained(Experts(), rows),
        "accumulated": lambda: trained(Blocks([64, 96, 128]), rows, passes=4),
        "custom": lambda: trained(Custom(), rows, square),
        "unlike": lambda: losses(False),
        "alike": lambda: losses(True),
        "adversaries": adversaries,
        "taught": taught,
        "rollouts": rollouts,
        "compiled": lambda: trained(torch.compile(Blocks([64, 96]), backend="aot_eager"), rows),
    }
    if name.startswith("timm."):
        return of_timm(name.removeprefix("timm."), 64)
    return made[name]()


if __name__ == "__main__":
    torch.set_num_threads(1)
    train = step_of(sys.argv[1])
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 8):
        train()
