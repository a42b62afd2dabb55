"""Processes that a training job starts work as without the profiler, and each has its own complete records."""

import json

import pytest
from unharmed import analysed, training

#: program that forks in the middle of a step, while threads record and make names, from a child, and past Python's fork
FORKS = """
import subprocess
stop = threading.Event()
def busy():
    while not stop.is_set(): model(torch.ones(2, 4))
def naming():
    number = 0
    while not stop.is_set():
        type(f"Named{number % 8}", (torch.nn.ReLU,), {})()(torch.ones(2))
        number += 1
lock = threading.Lock()
lock.acquire()
threads = [threading.Thread(target=target) for target in (busy, naming)]
for thread in threads: thread.start()
class Child(torch.nn.Linear): pass
class Grandchild(torch.nn.Linear): pass
def train(kind):
    net = kind(4, 4)
    for _ in range(25): net(torch.ones(2, 4)).sum().backward()
    return bool(net.weight.grad.sum())
def forked(kind, again=False):
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    done = train(kind)
    inner = forked(Grandchild) if again else 0
    os._exit(10 + done + inner)
for number in range(5): print(forked(Child), flush=True)
print(forked(Child, again=True), flush=True)
print(os.waitstatus_to_exitcode(os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "exit 5"], os.environ), 0)[1]))
print(subprocess.run(["sh", "-c", "exit 6"]).returncode, subprocess.run(["true"], preexec_fn=os.getpid).returncode)
stop.set()
for thread in threads: thread.join()
print(step())
"""


def test_forks_beside_threads_that_record(twice):
    run = twice(training(FORKS), options={"overhead_budget": 0}, timeout=200)
    assert run.out.splitlines()[1:][:6] == ["11"] * 5 + ["22"]
    summary = analysed(run)
    calls = {item["name"]: item["count"] for item in summary["modules"]}
    assert (calls["Child"], calls["Grandchild"]) == (6 * 25, 25), "each child once, and none of them its parent's"
    assert [process["role"] for process in summary["run"]["processes"]].count("fork") == 7


#: program that starts children in each way of multiprocessing, and ends them in each way
POOLS = """
import concurrent.futures, multiprocessing, os, signal, sys, time
import torch
torch.set_num_threads(1)

class Worker(torch.nn.Linear): pass

def work(number):
    torch.manual_seed(number)
    net = Worker(4, 4)
    for _ in range(3): net(torch.ones(2, 4)).sum().backward()
    return net.weight.grad.sum().item()

def tell(queue):
    queue.put(work(1))

def wait(ready):
    work(1)
    ready.set()
    time.sleep(100)

if __name__ == "__main__":
    how = multiprocessing.get_context(sys.argv[1])
    queue = how.SimpleQueue()
    child = how.Process(target=tell, args=(queue,))
    child.start(); print(queue.get()); child.join(); print(child.exitcode)
    for end in ("terminate", "kill"):
        ready = how.Event()
        child = how.Process(target=wait, args=(ready,))
        child.start(); ready.wait(); getattr(child, end)(); child.join(); print(child.exitcode)
    with how.Pool(2) as pool:
        print(pool.map(work, range(4)))
    pool = how.Pool(2)
    print(pool.map(work, range(4))); pool.close(); pool.join()
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=how) as pool:
        print(list(pool.map(work, range(4))))
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=how) as pool:
        try:
            pool.submit(os._exit, 3).result()
        except concurrent.futures.process.BrokenProcessPool:
            print("broken")
    print("done", flush=True)
"""


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_processes_and_pools(twice, tmp_path, how):
    run = twice(POOLS, how, options={"overhead_budget": 0}, timeout=250)
    assert run.code == 0 and run.out.endswith("done\n"), run.err
    summary = analysed(run)
    (worker,) = [item for item in summary["modules"] if item["name"] == "Worker"]
    assert worker["count"] == 3 * (1 + 2 + 4 + 4 + 4)
    folders = list(run.result.glob("FRAMEWORK/process_*"))
    recorded = [json.loads((folder / "process_info.json").read_text())["pid"] for folder in folders]
    assert sorted(recorded) == sorted(int(folder.name.partition("_")[2]) for folder in folders), "one folder a process"
    states = [process["state"] for process in summary["run"]["processes"]]
    assert states.count("killed or vanished") >= 2
    # the main process, the first child, and the workers of the pool and of the executor that were told to end
    assert states.count("exit") >= 1 + 1 + 2 + 2, states


LOADERS = """
import gc, os, sys
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
torch.set_num_threads(1)

class Numbers(Dataset):
    def __init__(self, fails=-1): self.fails = fails
    def __len__(self): return 16
    def __getitem__(self, number):
        if number == self.fails: raise KeyError(number)
        return torch.nn.functional.relu(torch.ones(4) * number)

class Stream(IterableDataset):
    def __iter__(self): return iter(torch.arange(12.0).reshape(12, 1))

def count(loader, most=99):
    found = []
    for number, batch in enumerate(loader):
        found.append(batch.sum().item())
        if number == most: break
    return found

if __name__ == "__main__":
    for workers in (0, 2):
        for lasting in ((False, True) if workers else (False,)):
            with_workers = {"num_workers": workers, "persistent_workers": lasting, "batch_size": 4}
            loader = DataLoader(Numbers(), **with_workers)
            print(workers, lasting, count(loader), count(loader, 1), count(loader))
            print(sorted(count(DataLoader(Stream(), **with_workers))))
            try:
                count(DataLoader(Numbers(fails=9), **with_workers))
            except KeyError as error:
                print("KeyError", str(error).splitlines()[-1], flush=True)
            # the traceback holds the loader: a worker that collects it prints an error of PyTorch's
            gc.collect()
    print("done", flush=True)
"""


def test_loaders_of_batches(twice):
    run = twice(LOADERS, options={"overhead_budget": 0}, timeout=200)
    assert run.out.count("\nKeyError ") == 3 and run.out.endswith("done\n"), run.err
    assert len(analysed(run)["run"]["processes"]) >= 1
