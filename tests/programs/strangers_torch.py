"""Train with PyTorch in scripts like those of other people, with one planted fault or without a fault.

usage: strangers_torch.py KIND, one of `KINDS`
       torchrun strangers_torch.py sleep-first|data-last|compute-last|none
"""

import os
import queue
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

STEPS = 24


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.wide, self.narrow = (
            nn.LayerNorm(width),
            nn.Linear(width, 2 * width),
            nn.Linear(2 * width, width),
        )

    def forward(self, x):
        return x + self.narrow(functional.gelu(self.wide(self.norm(x))))


class Trainer:
    """Train a model, and call some callbacks after each step."""

    def __init__(self, *callbacks):
        self.model = nn.Sequential(nn.Linear(40, 256), *(Block(256) for _ in range(3)), nn.Linear(256, 20))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-3)
        self.callbacks, self.step, self.logits = callbacks, 0, None

    def fit(self):
        data = TensorDataset(torch.randn(STEPS * 128, 40), torch.randint(20, (STEPS * 128,)))
        for x, y in DataLoader(data, 128, shuffle=True):
            self.optimizer.zero_grad(set_to_none=True)
            self.logits = self.model(x)
            functional.cross_entropy(self.logits, y).backward()
            self.optimizer.step()
            self.step += 1
            for callback in self.callbacks:
                callback(self)


def histograms(trainer):
    """Count the values of the weights in Python."""
    for parameter in trainer.model.parameters():
        counts = {}
        for value in parameter.detach().flatten()[:8000].tolist():
            counts[round(value, 2)] = counts.get(round(value, 2), 0) + 1


def pairs(trainer):
    """Compare each prediction with each label in Python: each call lasts some hundred microseconds."""
    logits, labels = trainer.logits.detach(), torch.arange(60)
    for _ in range(200):
        predicted, wanted = logits[:60].argmax(1).tolist(), labels.tolist()
        sum(one == other for one in predicted for other in wanted)


def save(trainer):
    """Save the model in every fourth step."""
    if trainer.step % 4 == 0:
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": trainer.model.state_dict(), "buffer": torch.zeros(16 << 20)}
            torch.save(state, os.path.join(folder, "last.pt"))


class Text(Dataset):
    """Texts that Python cuts into tokens, several times over."""

    def __init__(self, times):
        letters = random.Random(0)
        self.texts = ["".join(chr(97 + letters.randrange(26)) for _ in range(128)) for _ in range(64)]
        self.times = times

    def __len__(self):
        return STEPS * 16

    def __getitem__(self, index):
        text, tokens = self.texts[index % 64], []
        for _ in range(self.times):
            tokens = [26 * (ord(text[at]) - 97) + ord(text[at + 1]) - 97 for at in range(0, 128, 2)]
        return torch.tensor(tokens), index % 5


class Images(Dataset):
    """Cut images from large images, which are flipped again and again for some milliseconds of processor time.

    The flips are long, so that a fast processor does not make more records than the analysis holds in memory.
    """

    def __init__(self, milliseconds=0):
        self.seconds = milliseconds / 1000

    def __len__(self):
        return STEPS * 16

    def __getitem__(self, index):
        image, end = torch.rand(3, 24, 24), time.thread_time() + self.seconds
        large = image.repeat(1, 10, 10) if self.seconds else image
        while time.thread_time() < end:
            large = large.flip(1)
        return large[:, :24, :24].contiguous(), index % 5


def slow_collate(items):
    """Wait 80 ms and return a batch of the samples."""
    time.sleep(0.08)
    return torch.stack([image for image, _ in items]), torch.tensor([label for _, label in items])


class Reader(nn.Module):
    """A recurrent network over tokens."""

    def __init__(self, width=64):
        super().__init__()
        self.embedding, self.rnn = nn.Embedding(700, width), nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, 5)

    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[1][0])


def images(width):
    """Return a small convolutional network."""
    return nn.Sequential(
        *(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5)),
    )


def load(model, dataset, **options):
    """Train a model for one epoch from a loader."""
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in DataLoader(dataset, batch_size=16, **options):
        loss = functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def signals():
    """Return a convolutional network over signals."""
    model = nn.Sequential(nn.Conv1d(4, 32, 5), nn.ReLU(), nn.Conv1d(32, 32, 5), nn.Flatten(), nn.LazyLinear(7))
    model(torch.randn(1, 4, 64))
    return model


def around(does, model=None):
    """Train a model, and call `does` with the model after each step."""
    model = model or signals()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        functional.cross_entropy(model(torch.randn(32, 4, 64)), torch.randint(7, (32,))).backward()
        optimizer.step()
        does(model)


def locked():
    """Train, and wait in each step for a lock that another thread holds most of the time."""
    lock, done = threading.Lock(), threading.Event()

    def hold():
        while not done.is_set():
            with lock:
                time.sleep(0.04)
            time.sleep(0.001)

    def wait(_):
        with lock:
            pass

    holder = threading.Thread(target=hold)
    holder.start()
    around(wait)
    done.set()
    holder.join()


def served():
    """Train, and send each loss to a server that answers after 40 ms."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        while data := connection.recv(64):
            time.sleep(0.04)
            connection.sendall(data)

    server = threading.Thread(target=serve)
    server.start()
    with socket.create_connection(listener.getsockname()) as client:

        def send(_):
            client.sendall(b"loss")
            client.recv(64)

        around(send)
    server.join()
    listener.close()


def queued():
    """Train, and take each batch from a thread of the script, which needs 50 ms for it."""
    batches = queue.Queue(2)

    def make():
        for _ in range(STEPS):
            time.sleep(0.05)
            batches.put(0)

    maker = threading.Thread(target=make)
    maker.start()
    around(lambda _: batches.get())
    maker.join()


def child(_):
    """Run another program for 50 ms and wait for it."""
    subprocess.run(["sleep", "0.05"], check=True)


def play(model):
    """Choose 16 actions by the model, and wait 2 ms for the environment after each."""
    for _ in range(16):
        with torch.no_grad():
            model(torch.randn(1, 4, 64)).argmax(1)
        time.sleep(0.002)


def hooked(where):
    """Train with a hook that sleeps 50 ms in the forward pass or at a gradient."""
    model = signals()
    if where == "forward":
        model[2].register_forward_hook(lambda *_: time.sleep(0.05))
    else:
        model[0].weight.register_hook(lambda _: time.sleep(0.05))
    around(lambda _: None, model)


def train(model, optimizer, batch, steps=STEPS, loss_of=functional.cross_entropy):
    """Train a model on the batches that the function `batch` returns."""
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()


class Ratings(nn.Module):
    """A recommendation model with two large embedding tables."""

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(120_000, 48), nn.Embedding(60_000, 48)

    def forward(self, x):
        return (self.users(x[:, 0]) * self.items(x[:, 1])).sum(1)


class Lion(torch.optim.Optimizer):
    """An optimizer of the script's own, which updates one parameter after the other."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 1e-4})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["average"], state["slow"] = torch.zeros_like(parameter), parameter.clone()
                average, slow = state["average"], state["slow"]
                update = average.clone().mul_(0.9).add_(parameter.grad, alpha=0.1).sign_()
                parameter.mul_(0.9999).add_(update, alpha=-group["lr"]).clamp_(-10, 10)
                average.mul_(0.99).add_(parameter.grad, alpha=0.01)
                slow.mul_(0.9).add_(parameter, alpha=0.1)
                parameter.mul_(0.99).add_(slow, alpha=0.01)


def deep():
    """Return a network of 40 small linear layers with activations."""
    return nn.Sequential(*(layer for _ in range(40) for layer in (nn.Linear(16, 16), nn.Tanh())), nn.Linear(16, 4))


class Scan(nn.Module):
    """A recurrent network that loops over time in Python."""

    def __init__(self):
        super().__init__()
        self.input, self.state, self.head = nn.Linear(8, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        state = torch.zeros(x.shape[0], 16)
        for time_step in range(x.shape[1]):
            state = torch.tanh(self.input(x[:, time_step]) + self.state(state))
        return self.head(state)


def small(size=16):
    """Return a batch of `size` samples with 16 features and four classes."""
    return torch.randn(size, 16), torch.randint(4, (size,))


def one_by_one():
    """Train, and read 640 single weights in each step."""
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer, total = torch.optim.SGD(model.parameters(), 0.01), 0.0
    for _ in range(STEPS):
        train(model, optimizer, small, 1)
        weights = model[0].weight.detach()
        for row in range(40):
            for column in range(16):
                total += weights[row, column].item()


def leak():
    """Train, and keep the output of each step, which keeps the memory of its backward pass."""
    model, kept = nn.LSTM(32, 256, batch_first=True), []
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(40):
        out, _ = model(torch.randn(32, 80, 32))
        optimizer.zero_grad()
        out.pow(2).mean().backward()
        optimizer.step()
        kept.append(out)


class Language(nn.Module):
    """A small language model."""

    def __init__(self):
        super().__init__()
        self.tokens, self.head = nn.Embedding(500, 128), nn.Linear(128, 500)
        layers = [nn.TransformerEncoderLayer(128, 4, 512, 0.1, batch_first=True, norm_first=True) for _ in range(3)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        state = self.tokens(x)
        for layer in self.layers:
            state = layer(state)
        return self.head(state)


def language():
    """Train a language model with clipped gradients and a schedule of the learning rate."""
    model = Language()
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    for step in range(STEPS):
        x = torch.randint(500, (16, 64))
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(x).flatten(0, 1), x.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 8 == 0:
            print(loss.item())


def adversaries():
    """Train two networks against each other, alternately."""
    maker = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 784))
    judge = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))
    first, second = torch.optim.Adam(judge.parameters()), torch.optim.Adam(maker.parameters())
    for _ in range(40):
        noise = torch.randn(256, 64)
        first.zero_grad()
        (
            functional.softplus(-judge(torch.randn(256, 784))).mean()
            + functional.softplus(judge(maker(noise).detach())).mean()
        ).backward()
        first.step()
        second.zero_grad()
        functional.softplus(-judge(maker(noise))).mean().backward()
        second.step()


def accumulated():
    """Train with gradients that are accumulated over four batches."""
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512))
    optimizer = torch.optim.AdamW(model.parameters())
    for batch in range(4 * STEPS):
        with torch.autocast("cpu", torch.bfloat16, enabled=False):
            (model(torch.randn(128, 512)).square().mean() / 4).backward()
        if batch % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


def ranks(kind):
    """Train on two ranks; with a kind other than "none", one of them is late."""
    from torch.nn.parallel import DistributedDataParallel

    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    model = DistributedDataParallel(images(24))
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    data = Images(5 if kind == "data-last" and rank else 0)
    for x, y in DataLoader(data, batch_size=16):
        if kind == "sleep-first" and not rank:
            time.sleep(0.15)
        if kind == "none" or (kind == "compute-last" and rank):
            # without this, exchanges take 29 % of the steps of a fast machine
            x, y = x.repeat(6, 1, 1, 1), y.repeat(6)
        train(model, optimizer, lambda x=x, y=y: (x, y), 1)
    torch.distributed.destroy_process_group()


def averaged():
    """Train a model of wide layers, and average its weights in Python after each step."""
    model = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(512, 512), nn.Tanh())), nn.Linear(512, 4))
    mean = {name: weight.clone() for name, weight in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), 0.01, foreach=True)
    for _ in range(STEPS):
        train(model, optimizer, lambda: (torch.randn(4, 512), torch.randint(4, (4,))), 1)
        for _ in range(40):  # as many times as a larger model would have weights
            for name, weight in model.state_dict().items():
                if name.endswith("bias"):
                    mean[name] = mean[name] * 0.99 + weight * 0.01


def anomalous():
    """Train as if the search for a NaN had been left on."""
    torch.autograd.set_detect_anomaly(True)
    of(deep, lambda parameters: torch.optim.SGD(parameters, 0.01), small)()


def of(model, make, batch, **options):
    """Return a job that trains a model.

    Args:
        model: a function that makes the model.
        make: a function that makes the optimizer from the model's parameters.
        batch: a function that returns a batch.
        options: further arguments of `train`.
    """
    return lambda: train(network := model(), make(network.parameters()), batch, **options)


KINDS = {
    "callback": lambda: Trainer(lambda _: time.sleep(0.06)).fit(),
    "histograms": lambda: Trainer(histograms).fit(),
    "pairs": lambda: Trainer(pairs).fit(),
    "save": lambda: Trainer(save).fit(),
    "tokens": lambda: load(Reader(), Text(200)),
    "collate": lambda: load(images(8), Images(), collate_fn=slow_collate),
    "turned": lambda: load(images(8), Images(8), num_workers=2),
    "lock": locked,
    "socket": served,
    "queue": queued,
    "child": lambda: around(child),
    "play": lambda: around(play),
    "hook": lambda: hooked("forward"),
    "gradient-hook": lambda: hooked("backward"),
    "ratings": of(
        Ratings,
        torch.optim.AdamW,
        lambda: (torch.randint(60_000, (256, 2)), torch.rand(256)),
        steps=16,
        loss_of=functional.mse_loss,
    ),
    "lion": of(deep, Lion, small),
    "single": of(deep, lambda parameters: torch.optim.AdamW(parameters, foreach=False), small),
    "scan": of(Scan, torch.optim.Adam, lambda: (torch.randn(8, 150, 8), torch.randint(4, (8,)))),
    "one-by-one": one_by_one,
    "anomaly": anomalous,
    "average": averaged,
    "leak": leak,
    "trainer": lambda: Trainer().fit(),
    # With width 64, launches would determine its time: a step has 75 MFLOP and 3,600 operators.
    "text": lambda: load(Reader(384), Text(1)),
    "loaded": lambda: load(images(48), Images(), num_workers=1),
    "language": language,
    "adversaries": adversaries,
    "accumulated": accumulated,
}

if __name__ == "__main__":
    torch.manual_seed(1)
    if "RANK" in os.environ:
        ranks(sys.argv[1])
    else:
        KINDS[sys.argv[1]]()
