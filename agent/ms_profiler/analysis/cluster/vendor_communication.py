"""Write the exchanges of all ranks in the form of msprof-analyze 26.2: by group of ranks, step, exchange and rank.

Numbers are added in the same order as in msprof-analyze, so that the sums are equal to the last digit.
"""

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, BinaryIO, Final

import orjson

TOTAL: Final = "Total Op Info"
COLLECTIVE: Final = "collective"
P2P: Final = "p2p"
_TIME: Final = "Communication Time Info"
_BANDWIDTH: Final = "Communication Bandwidth Info"
_RATIOS: Final = {
    "Wait Time Ratio": "Wait Time(ms)",
    "Synchronization Time Ratio": "Synchronization Time(ms)",
}
_START: Final = "Start Timestamp(us)"
_TRANSIT_MS: Final = "Transit Time(ms)"
_TRANSIT_MB: Final = "Transit Size(MB)"
_SPEED: Final = "Bandwidth(GB/s)"
_SIZES: Final = "Size Distribution"
_TRANSPORT: Final = "Transport Type"
_NAME: Final = "Op Name"
_LEAST: Final = 1e-15
#: if the name of an exchange contains one of these words, the sums leave it out, because a `total` entry contains it
_PARTS: Final = ("middle", "top", "bottom")

#: key of an exchange: (kind of the exchanges, name of the group, step, name of the exchange)
_Key = tuple[str, str, str, str]
#: facts of an exchange: (rank, step, kind, name, whether communication_matrix.json has it, size of its JSON)
Entry = tuple[int, str, str, str, bool, int]


def entries(rank: int, communication: dict[str, Any], matrix: dict[str, Any]) -> Iterator[tuple[Entry, bytes]]:
    """Yield the exchanges of a rank, each with its data as JSON.

    Args:
        rank: number of the rank.
        communication: the content of its communication.json.
        matrix: the content of its communication_matrix.json.
    """
    for content in (communication, matrix):
        for step, kinds in content.items():
            for kind, name, known in _each(kinds):
                if content is communication or kind in (COLLECTIVE, P2P):
                    text = orjson.dumps(known)
                    yield (rank, step, kind, name, content is matrix, len(text)), text


class Exchanges:
    """The exchanges of all ranks. Their data is in a file; only their positions in the file are in memory.

    Attributes:
        groups: kind of the exchanges ("collective" or "p2p") -> name of a group -> its ranks.
        sums: ("SOURCE-TARGET", kind of the link) -> (megabytes, milliseconds); the method `matrix` fills this dict.
    """

    def __init__(self, file: BinaryIO) -> None:
        """Create an empty collection.

        Args:
            file: a readable and writable file, which receives the data of the exchanges.
        """
        self.groups: dict[str, dict[str, set[int]]] = {COLLECTIVE: {}, P2P: {}}
        self.sums: dict[tuple[str, str], tuple[float, float]] = {}
        self._file, self._size = file, 0
        #: positions in the file, as two dicts: for communication.json and for communication_matrix.json. Each dict maps
        #: `_Key` -> three numbers for each entry (rank, position in the file, size), one entry after the other
        self._places: tuple[dict[_Key, array[int]], dict[_Key, array[int]]] = ({}, {})

    def add(self, found: Sequence[Entry], texts: bytes) -> None:
        """Add exchanges.

        Args:
            found: the entries of some ranks.
            texts: the JSON texts of these entries, one after the other.
        """
        self._file.write(texts)
        for rank, step, kind, name, link, length in found:
            group = group_of(name)
            if kind in self.groups:
                self.groups[kind].setdefault(group, set()).add(rank)
            key = P2P if kind == P2P else COLLECTIVE, group, step, name
            self._places[link].setdefault(key, array("q")).extend((rank, self._size, length))
            self._size += length

    def communication(self) -> Iterator[bytes]:
        """Yield the content of cluster_communication.json in parts; nothing if there are no exchanges."""
        return self._content(self._places[0], _with_totals)

    def matrix(self) -> Iterator[bytes]:
        """Yield the content of cluster_communication_matrix.json in parts; nothing if there are no links."""
        return self._content(self._places[1], self._joined)

    def _joined(self, exchanged: "_Exchanged") -> Iterator[tuple[str, bytes]]:
        for name, links in _joined_links(exchanged):
            for ends, link in links.items() if name.startswith(TOTAL) else ():
                key = ends, link[_TRANSPORT] or ""
                before = self.sums.get(key, (0.0, 0.0))
                self.sums[key] = before[0] + link[_TRANSIT_MB], before[1] + link[_TRANSIT_MS]
            yield name, orjson.dumps(links)

    def _content(
        self, places: "dict[_Key, array[int]]", complete: Callable[["_Exchanged"], Iterator[tuple[str, bytes]]]
    ) -> Iterator[bytes]:
        """Yield the JSON of exchanges by group and step. `complete` yields name and JSON of each exchange of a step."""
        self._file.flush()
        found: dict[str, dict[str, dict[str, array[int]]]] = {}
        for (kind, name, step, exchange), where in places.items():
            members = self.groups.get(kind, {}).get(name)
            group = "()" if members is None else str(tuple(members))
            found.setdefault(group, {}).setdefault(step, {}).setdefault(exchange, array("q")).extend(where)
        opening = b"{"
        for group, steps in found.items():
            yield opening + orjson.dumps(group) + b":"
            opening = b"{"
            for step, exchanges in steps.items():
                yield opening + orjson.dumps(step) + b":"
                opening = b"{"
                for exchange, text in complete(_Exchanged(self._file, exchanges)):
                    yield opening + orjson.dumps(exchange) + b":" + text
                    opening = b","
                yield b"}"
                opening = b","
            yield b"}"
            opening = b","
        if found:
            yield b"}"


class _Exchanged:
    """The exchanges of one group in one step."""

    def __init__(self, file: BinaryIO, places: "dict[str, array[int]]") -> None:
        self._descriptor, self._places = file.fileno(), places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def of(self, name: str) -> dict[int, bytes]:
        """Return rank -> JSON of the exchange `name`."""
        where, found = self._places[name], {}
        for rank, place, length in zip(where[::3], where[1::3], where[2::3], strict=True):
            if rank not in found:
                found[rank] = os.pread(self._descriptor, length, place)
        return found


def group_of(name: str) -> str:
    """Return the name of the group, which the name of each exchange contains."""
    return name.rpartition("@")[2]


def _each(kinds: Any) -> Iterator[tuple[str, str, Any]]:
    if not isinstance(kinds, dict):
        return
    for kind, exchanges in kinds.items():
        for name, known in exchanges.items():
            if not name.startswith("Total"):
                yield kind, name, known


def _ratio(part: float, whole: float) -> float:
    return 0 if abs(whole) < _LEAST else round(part / whole, 4)


def _with_totals(exchanges: _Exchanged) -> Iterator[tuple[str, bytes]]:
    """Yield (name, JSON) of each exchange, then (name, JSON) of each group's total, which has the sums of each rank."""
    sums: dict[str, dict[int, dict[str, Any]]] = {}
    for name in exchanges:
        own = sums.setdefault(group_of(name), {})
        texts = exchanges.of(name)
        for rank, text in texts.items():
            known = orjson.loads(text)
            total = own.get(rank)
            if total is None:
                total = own[rank] = {_TIME: {}, _BANDWIDTH: {}}
            times = total[_TIME]
            for key, value in known.get(_TIME, {}).items():
                if key != _START and key not in _RATIOS:
                    times[key] = times.get(key, 0.0) + value
            _add_bandwidths(total[_BANDWIDTH], known.get(_BANDWIDTH, {}))
        yield name, b"{" + b",".join(b'"%d":%b' % each for each in texts.items()) + b"}"
    for group, own in sums.items():
        for total in own.values():
            times = total[_TIME]
            for ratio, key in _RATIOS.items():
                waited = times.get(key, 0)
                times[ratio] = _ratio(waited, waited + times.get(_TRANSIT_MS, 0))
            for link in total[_BANDWIDTH].values():
                link[_SPEED] = _ratio(link[_TRANSIT_MB], link[_TRANSIT_MS])
        yield f"{TOTAL}@{group}", orjson.dumps(own, option=orjson.OPT_NON_STR_KEYS)


def _add_bandwidths(total: dict[str, Any], known: dict[str, Any]) -> None:
    for transport, values in known.items():
        link = total.get(transport)
        if link is None:
            link = total[transport] = {_TRANSIT_MS: 0, _TRANSIT_MB: 0, _SIZES: {}}
        for key in (_TRANSIT_MS, _TRANSIT_MB):
            if key in values:
                link[key] += values[key]
        sizes = link[_SIZES]
        for size, (count, length) in values.get(_SIZES, {}).items():
            before = sizes.get(size, (0, 0))
            sizes[size] = [before[0] + count, before[1] + length]


def _joined_links(exchanges: _Exchanged) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name of an exchange, its links on all ranks), and then (name of a group's total, sums of its links).

    The matrix of a rank identifies ranks by their numbers within the group. They are replaced by ranks of the job.
    """
    members: dict[str, dict[str, int]] = {}
    for name in exchanges:
        of_group = members.setdefault(group_of(name), {})
        for rank, text in exchanges.of(name).items():
            for link in orjson.loads(text):
                source, target = _ends(link)
                if target is None:
                    break
                if source == target:
                    of_group.setdefault(source, rank)
    sums: dict[str, dict[str, dict[str, Any]]] = {}
    for name in exchanges:
        group = group_of(name)
        of_group = members[group]
        known: dict[str, dict[str, Any]] = {}
        for text in exchanges.of(name).values():
            for link, values in orjson.loads(text).items():
                if _ends(link)[1] is None:
                    break
                total = known.get(link)
                if total is None:
                    total = known[link] = _link()
                _add_link(total, values)
        joined = {}
        for link, total in known.items():
            source, target = _ends(link)
            if source in of_group and target in of_group:
                total[_SPEED] = _ratio(total[_TRANSIT_MB], total[_TRANSIT_MS])
                joined[f"{of_group[source]}-{of_group[target]}"] = total
        if joined and not any(part in name for part in _PARTS):
            all_links = sums.setdefault(group, {})
            for ends, total in joined.items():
                _add_link(all_links.setdefault(ends, _link()), total)
        yield name, joined
    for group, all_links in sums.items():
        for total in all_links.values():
            total[_SPEED] = _ratio(total[_TRANSIT_MB], total[_TRANSIT_MS])
        yield f"{TOTAL}@{group}", all_links


@lru_cache(maxsize=1 << 16)
def _ends(link: str) -> tuple[str, str | None]:
    """Return the source and the target of a link; the target is None if the text of the link has no target."""
    source, sign, rest = link.partition("-")
    return source, rest.partition("-")[0] if sign else None


def _link() -> dict[str, Any]:
    return {_TRANSPORT: "", _TRANSIT_MS: 0, _TRANSIT_MB: 0, _NAME: ""}


def _add_link(total: dict[str, Any], link: dict[str, Any]) -> None:
    total[_TRANSPORT] = link.get(_TRANSPORT)
    total[_NAME] = link.get(_NAME, "")
    total[_TRANSIT_MS] += link.get(_TRANSIT_MS, 0)
    total[_TRANSIT_MB] += link.get(_TRANSIT_MB, 0)
