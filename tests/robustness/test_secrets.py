"""No byte that a profiled run writes or prints contains a secret that the job knows."""

import subprocess
import sys

from conftest import environment
from unharmed import training

CANARY = "canary7d1f0c"
PROGRAM = f"""
from torch.utils.data import DataLoader, Dataset
assert sys.argv[1] == '--token={CANARY}'
class Remote(Dataset):
    url = 'https://user:{CANARY}@host/bucket?signature={CANARY}'
    def __len__(self): return 8
    def __getitem__(self, index): return torch.ones(4)
    def __repr__(self): return self.url
class Layer(torch.nn.Linear):
    def extra_repr(self): return '{CANARY}'
    def __repr__(self): return '{CANARY}'
    def forward(self, x, password='{CANARY}'): return super().forward(x)
model = torch.nn.Sequential(Layer(4, 8), Layer(8, 4))
model[0].note = '{CANARY}'
optimizer = torch.optim.SGD(model.parameters(), 0.1)
@torch.compile(backend='eager')
def compiled(x, secret): return x + len(secret)
for secret in ('{CANARY}', 'other'): compiled(torch.ones(2), secret)
for batch in DataLoader(Remote(), 2, num_workers=2): step()
for _ in range(40): step()
try:
    torch.load('{CANARY}.pt')
except FileNotFoundError:
    pass
torch.save({{'{CANARY}': torch.ones(1)}}, 'model.pt')
os.environ['LATER'] = '{CANARY}'
raise RuntimeError('connecting to https://user:{CANARY}@host failed')
"""


def test_no_byte_holds_the_canary(twice):
    options = {
        "analyse": "sync",
        "with_stack": True,
        "profile_memory": True,
        "record_shapes": True,
        "host_sys": ["cpu", "mem", "disk", "network"],
        "report": True,
        "export_type": ["text", "db", "kineto"],
    }
    for stack in (True, "sample"):
        run = twice(
            training(PROGRAM),
            f"--token={CANARY}",
            options=options | {"with_stack": stack},
            env={"API_TOKEN": CANARY, "DATABASE_URL": f"postgres://u:{CANARY}@h/db"},
        )
        assert run.code == 1 and CANARY in run.bare.err
        assert not any(CANARY in line for line in run.lines), run.lines
        result = run.results[-1]
        files = [path for path in result.rglob("*") if path.is_file()]
        assert len(files) > 15
        assert not [path for path in files if CANARY.encode() in path.read_bytes() or CANARY in path.name]
        for command in (["summary", "--all"], ["summary", "--json"], ["doctor"], ["analyse", "--export=parquet"]):
            done = subprocess.run(
                [sys.executable, "-m", "ms_profiler", *command, str(result)],
                env=environment(),
                capture_output=True,
                check=False,
            )
            assert CANARY.encode() not in done.stdout + done.stderr, command
