"""Train in common loops that do not consider profilers; print the number of steps. usage: torch_strangers.py KIND"""

import copy
import sys

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(0)
count = 0


def evaluated(network, *inputs, times=10):
    """Call a network `times` times in evaluation mode."""
    network.eval()
    with torch.inference_mode():
        for _ in range(times):
            network(*inputs)
    network.train()


def reinforce():
    """Play 30 episodes of different lengths, each followed by an update; evaluate after every tenth."""
    global count
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    for episode in range(30):
        state, chosen = torch.randn(4), []
        for _ in range(5 + episode % 7):
            choice = torch.distributions.Categorical(logits=policy(state))
            action = choice.sample()
            chosen.append(choice.log_prob(action) * float(state[0]))
            state = 0.9 * state + 0.1 * torch.randn(4)
        optimizer.zero_grad()
        (-torch.stack(chosen).sum()).backward()
        optimizer.step()
        count += 1
        if episode % 10 == 9:
            evaluated(policy, torch.randn(4), times=50)


def teacher():
    """Train, and average the weights in a copy; evaluate both networks after each epoch."""
    global count
    network = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    average = copy.deepcopy(network).requires_grad_(False)
    optimizer = torch.optim.AdamW(network.parameters())
    for _ in range(3):
        for _ in range(8):
            x = torch.randn(32, 16)
            with torch.no_grad():
                target = average(x)
            loss = (network(x + 0.1 * torch.randn_like(x)) - target).square().mean() + network(x).logsumexp(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            count += 1
            with torch.no_grad():
                for old, new in zip(average.parameters(), network.parameters(), strict=True):
                    old.lerp_(new, 0.01)
        evaluated(network, torch.randn(64, 16))
        evaluated(average, torch.randn(64, 16))


def closure():
    """Train with an optimizer that calls the network several times in a step; evaluate after every fourth step."""
    global count
    network = nn.Sequential(nn.Linear(2, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = torch.optim.LBFGS(network.parameters(), max_iter=6, line_search_fn="strong_wolfe")
    x, y = torch.randn(100, 2), torch.randn(100, 1)

    def again():
        optimizer.zero_grad()
        loss = (network(x) - y).square().mean()
        loss.backward()
        return loss

    for _ in range(12):
        optimizer.step(again)
        count += 1
        if count % 4 == 0:
            evaluated(network, x, times=3)


def alternate():
    """Update the critic twice for each update of the actor; evaluate both after every fifth step."""
    global count
    actor, critic = nn.Linear(6, 2), nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    first, second = torch.optim.SGD(actor.parameters(), 1e-3), torch.optim.Adam(critic.parameters())
    for _ in range(15):
        state = torch.randn(32, 6)
        for _ in range(2):
            with torch.no_grad():
                action = actor(state)
                target = torch.randn(32, 1) + 0.9 * critic(torch.cat([state, action], 1))
            second.zero_grad()
            (critic(torch.cat([state, action], 1)) - target).square().mean().backward()
            second.step()
        first.zero_grad()
        (-critic(torch.cat([state, actor(state)], 1))).mean().backward()
        first.step()
        count += 1
        if count % 5 == 0:
            evaluated(actor, state)
            evaluated(critic, torch.cat([state, action], 1))


def leftover():
    """Warm up, then accumulate two losses over four batches; the last step of an epoch has only two batches."""
    global count
    body, classes, value = nn.Linear(8, 32), nn.Linear(32, 3), nn.Linear(32, 1)
    optimizer = torch.optim.SGD([each for part in (body, classes, value) for each in part.parameters()], 0.1)
    for _ in range(5):
        classes(torch.relu(body(torch.randn(4, 8))))
    for _ in range(3):
        for number in range(10):
            inner = torch.relu(body(torch.randn(4, 8)))
            loss = nn.functional.cross_entropy(classes(inner), torch.randint(0, 3, (4,)))
            (loss / 4).backward(retain_graph=True)
            (value(inner).square().mean() / 4).backward()
            if number % 4 == 3 or number == 9:
                optimizer.step()
                optimizer.zero_grad()
                count += 1


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    print(count)
