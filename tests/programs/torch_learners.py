"""Train with libraries that have their own training loops; print how often an optimizer stepped.

usage: torch_learners.py PPO|A2C|DQN|skorch

The first three are algorithms of stable-baselines3.
"""

import sys

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

torch.set_num_threads(1)
torch.manual_seed(7)
count = 0


def stepped(*_):
    global count
    count += 1


def stable_baselines3(kind):
    import gymnasium
    import stable_baselines3

    settings = {"PPO": {"n_steps": 128, "n_epochs": 4}, "A2C": {}, "DQN": {"learning_starts": 50}}[kind]
    algorithm = getattr(stable_baselines3, kind)
    model = algorithm("MlpPolicy", gymnasium.make("CartPole-v1"), device="cpu", seed=7, **settings)
    model.learn({"PPO": 512, "A2C": 300, "DQN": 400}[kind])


def skorch():
    """Predict, train three epochs with an evaluation after each, and predict again."""
    from skorch import NeuralNetClassifier

    network = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(-1))
    classifier = NeuralNetClassifier(network, max_epochs=3, batch_size=20, verbose=0)
    x = torch.randn(200, 8).numpy()
    y = (x[:, 0] > 0).astype("int64")
    classifier.initialize()
    classifier.predict(x)
    classifier.fit(x, y)
    classifier.predict(x)


if __name__ == "__main__":
    register_optimizer_step_post_hook(stepped)
    kind = sys.argv[1]
    if kind == "skorch":
        skorch()
    else:
        stable_baselines3(kind)
    print(count)
