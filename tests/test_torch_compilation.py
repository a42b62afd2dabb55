"""Why a function is compiled again, told without what its arguments were."""

import pytest
from ms_profiler.job.frameworks.torch import compilation


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3",
            "tensor 'x' size mismatch at index 0. expected 2, actual 3",
        ),
        ("0/5: GLOBAL_STATE changed: grad_mode ", "GLOBAL_STATE changed: grad_mode"),
        ("0/1: 2 <= x.size()[0]  # if flag: x=x+n  # train.py:11 in forward", "2 <= x.size()[0]"),
        ("0/3: name == 'secret'        # if name == 'a':  # train.py:9\nUser stack", "name has another value"),
        ("1/2_1: L['key'] is not None", "L['key'] has another value"),
        ("0/0: ___check_type_id(L['x'], 139659049296768), type=<class 'tuple'>", "L['x']: check type id"),
        (
            "0/5: tensor 's.w' requires_grad mismatch. expected requires_grad=1. Guard failed on a parameter, consider",
            "tensor 's.w' requires_grad mismatch. expected requires_grad=1",
        ),
        ("0/0: " + "tensor " + "x" * 900, "tensor " + "x" * 193),
    ],
)
def test_causes_tell_sizes_and_no_values(told, kept):
    assert compilation.cause(told) == kept
