"""Train a small model by a library's own loop, with accumulated gradients and evaluations; print the loss.

usage: torch_trainers.py lightning|transformers|accelerate
"""

import sys
import tempfile
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

SAMPLES, BATCH = 48, 4
#: seconds that the script's callback takes after each step
SLOW = 0.02


def waiting(base, method):
    """Return a class of callbacks whose method takes `SLOW`."""

    def called(self, *_, **__):
        time.sleep(SLOW)

    return type("Waiting", (base,), {method: called, "__module__": __name__})


def tensors():
    torch.manual_seed(5)
    return torch.randn(SAMPLES, 8), torch.randn(SAMPLES, 1)


def lightning():
    """Train 2 epochs of 12 batches with 2 batches a step, which makes 12 steps."""
    import lightning.pytorch as library

    class Module(library.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
            self.last = 0.0

        def training_step(self, batch, index):
            loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.last = loss.item()
            return loss

        def validation_step(self, batch, index):
            self.net(batch[0])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.01)

    loader = DataLoader(TensorDataset(*tensors()), batch_size=BATCH)
    kind = waiting(library.Callback, "on_train_batch_end")
    known = vars(kind)["on_train_batch_end"]
    trainer = library.Trainer(
        callbacks=[kind()],
        max_epochs=2,
        accumulate_grad_batches=2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        default_root_dir=tempfile.mkdtemp(),
    )
    module = Module()
    trainer.fit(module, loader, loader)
    assert vars(kind)["on_train_batch_end"] is known
    return module.last


def transformers():
    """Train 2 epochs of 12 batches with 2 batches a step, which makes 12 steps; evaluate after each epoch."""
    import transformers as library

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
            self.last = 0.0

        def forward(self, x, labels=None):
            out = self.net(x)
            loss = nn.functional.mse_loss(out, labels)
            if self.training:
                self.last = loss.item()
            return {"loss": loss, "logits": out}

    x, y = tensors()
    rows = [{"x": a, "labels": b} for a, b in zip(x, y, strict=True)]
    arguments = library.TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        num_train_epochs=2,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH,
        gradient_accumulation_steps=2,
        eval_strategy="epoch",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        seed=5,
    )
    model = Model()
    kind = waiting(library.TrainerCallback, "on_step_end")
    known = vars(kind)["on_step_end"]
    trainer = library.Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows, callbacks=[kind()])
    trainer.train()
    assert vars(kind)["on_step_end"] is known
    return model.last


def accelerate():
    """Train 12 batches with 3 batches a step, which makes 4 steps."""
    from accelerate import Accelerator

    library = Accelerator(cpu=True, gradient_accumulation_steps=3)
    torch.manual_seed(5)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(*tensors()), batch_size=BATCH)
    net, optimizer, loader = library.prepare(net, optimizer, loader)
    for x, y in loader:
        with library.accumulate(net):
            loss = nn.functional.mse_loss(net(x), y)
            library.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(5)
    print(
        sys.argv[1],
        {"lightning": lightning, "transformers": transformers, "accelerate": accelerate}[sys.argv[1]]().hex(),
    )
