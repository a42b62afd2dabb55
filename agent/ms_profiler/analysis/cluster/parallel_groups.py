"""Find out from the purposes of groups of ranks which groups are a pipeline, and which share the experts of a layer.

The purpose of a group is one of these:

- the description that the script gave the group (PyTorch's `group_desc`, which Megatron sets),
- the dimension of a device mesh (`mesh_pp`),
- the name of a group of MindSpore, or
- `group_name` in the metadata of Ascend's tools.

A group is of a kind if its purpose has a word of this kind, and all other words, such as GROUP, say nothing about the
kind. So the ranks of `EXPERT_DATA_PARALLEL_GROUP` share no experts, because of the word DATA.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

#: words that tell the kind of a group: a pipeline, or ranks that share experts
PIPELINE: Final = frozenset({"pp", "pipe", "pipeline"})
EXPERTS: Final = frozenset({"ep", "exp", "expert", "experts"})
#: words that say nothing about the kind of a group
_PLAIN: Final = frozenset({"mesh", "model", "parallel", "group"})
_WORD: Final = re.compile(r"[^\W\d_]+")


def purpose(name: str, purposes: Mapping[str, Iterable[str]], words: frozenset[str]) -> str:
    """Return the purpose that tells that a group is a pipeline, or shares experts; empty if no purpose tells it.

    Args:
        name: the name of the group, which counts as a purpose too.
        purposes: name of a group -> its purposes.
        words: the words that tell the kind of a group: `PIPELINE` or `EXPERTS`.
    """
    for text in (*purposes.get(name, ()), name):
        found = set(_WORD.findall(text.lower()))
        if found & words and found <= words | _PLAIN:
            return text
    return ""


def of_kind(
    groups: Mapping[str, Sequence[int]], purposes: Mapping[str, Iterable[str]], words: frozenset[str]
) -> dict[str, str]:
    """Return the groups of a kind that have several ranks: name -> purpose.

    Args:
        groups: name of a group -> its ranks.
        purposes: name of a group -> its purposes.
        words: the words that tell the kind of a group: `PIPELINE` or `EXPERTS`.
    """
    found = {name: purpose(name, purposes, words) for name, ranks in groups.items() if len(ranks) > 1}
    return {name: text for name, text in found.items() if text}


def connected(used: Mapping[int, Iterable[Sequence[int]]]) -> dict[int, int]:
    """Return for each rank the lowest rank that exchanges with it, directly or through other ranks.

    Ranks with different results never wait for each other.

    Args:
        used: rank -> the ranks of each group that it used.
    """
    found = {rank: rank for rank in used}
    for group in sorted({tuple(group) for groups in used.values() for group in groups}):
        joined = {found[rank] for rank in group if rank in found}
        found = {rank: min(joined) if first in joined else first for rank, first in found.items()}
    return found
