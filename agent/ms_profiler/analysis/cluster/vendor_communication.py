"""The exchanges of all ranks in the form of msprof-analyze 26.2: by group of ranks, step, exchange and rank.

Sums are added up in its order, so that they are equal to the last digit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

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
#: exchanges that others contain
_PARTS: Final = ("middle", "top", "bottom")

#: exchange -> rank -> what is known of it
Exchanged = dict[str, dict[Any, Any]]
#: rank, step, kind and name of an exchange, and what is known of it as JSON: a tenth of the memory
Entry = tuple[int, str, str, str, bytes]


@dataclass
class Exchanges:
    """The exchanges of all ranks.

    Attributes:
        groups: ranks by name of their group, for "collective" and "p2p".
        entries: of communication.json.
        links: of communication_matrix.json.
        sums: megabytes and milliseconds of links, by "SOURCE-TARGET" and kind; filled by `matrix`.
    """

    groups: dict[str, dict[str, set[int]]] = field(default_factory=lambda: {COLLECTIVE: {}, P2P: {}})
    entries: list[Entry] = field(default_factory=list)
    links: list[Entry] = field(default_factory=list)
    sums: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)

    def add(self, rank: int, communication: dict[str, Any], matrix: dict[str, Any]) -> None:
        """Add those of a rank.

        Args:
            rank: its number.
            communication: content of its communication.json.
            matrix: content of its communication_matrix.json.
        """
        for content, entries in ((communication, self.entries), (matrix, self.links)):
            for step, kinds in content.items():
                for kind, name, known in _each(kinds):
                    if kind in self.groups:
                        self.groups[kind].setdefault(group_of(name), set()).add(rank)
                    if content is communication or kind in self.groups:
                        entries.append((rank, step, kind, name, orjson.dumps(known)))

    def communication(self) -> Iterator[bytes]:
        """Yield the content of cluster_communication.json in parts; nothing where there is none."""
        return self._content(self.entries, _add_totals)

    def matrix(self) -> Iterator[bytes]:
        """Yield the content of cluster_communication_matrix.json in parts; nothing where there is none."""
        return self._content(self.links, self._join)

    def _join(self, exchanged: Exchanged) -> None:
        _join_links(exchanged)
        for name, links in exchanged.items():
            for ends, link in links.items() if name.startswith(TOTAL) else ():
                key = ends, link[_TRANSPORT] or ""
                before = self.sums.get(key, (0.0, 0.0))
                self.sums[key] = before[0] + link[_TRANSIT_MB], before[1] + link[_TRANSIT_MS]

    def _content(self, entries: list[Entry], complete: Callable[[Exchanged], None]) -> Iterator[bytes]:
        """Yield entries by group and step, of which each step is completed; one step at a time is no bytes."""
        ranks = {
            (kind, name): str(tuple(members))
            for kind, groups in self.groups.items()
            for name, members in groups.items()
        }
        found: dict[str, dict[str, dict[str, dict[int, bytes]]]] = {}
        for rank, step, kind, name, known in entries:
            group = ranks.get((P2P if kind == P2P else COLLECTIVE, group_of(name)), "()")
            found.setdefault(group, {}).setdefault(step, {}).setdefault(name, {}).setdefault(rank, known)
        entries.clear()
        opening = b"{"
        for group, steps in found.items():
            yield opening + orjson.dumps(group) + b":"
            opening = b"{"
            for step in list(steps):
                exchanged: Exchanged = {
                    name: {rank: orjson.loads(known) for rank, known in members.items()}
                    for name, members in steps.pop(step).items()
                }
                complete(exchanged)
                yield opening + orjson.dumps(step) + b":" + orjson.dumps(exchanged, option=orjson.OPT_NON_STR_KEYS)
                opening = b","
            yield b"}"
            opening = b","
        if found:
            yield b"}"


def group_of(name: str) -> str:
    """Return the name of the group in the name of an exchange."""
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


def _add_totals(exchanges: Exchanged) -> None:
    """Add the sum of the exchanges of each group and rank."""
    sums: dict[str, dict[int, dict[str, Any]]] = {}
    for name, ranks in exchanges.items():
        own = sums.setdefault(group_of(name), {})
        for rank, known in ranks.items():
            total = own.get(rank)
            if total is None:
                total = own[rank] = {_TIME: {}, _BANDWIDTH: {}}
            times = total[_TIME]
            for key, value in known.get(_TIME, {}).items():
                if key != _START and key not in _RATIOS:
                    times[key] = times.get(key, 0.0) + value
            _add_bandwidths(total[_BANDWIDTH], known.get(_BANDWIDTH, {}))
    for group, own in sums.items():
        for total in own.values():
            times = total[_TIME]
            for ratio, key in _RATIOS.items():
                waited = times.get(key, 0)
                times[ratio] = _ratio(waited, waited + times.get(_TRANSIT_MS, 0))
            for link in total[_BANDWIDTH].values():
                link[_SPEED] = _ratio(link[_TRANSIT_MB], link[_TRANSIT_MS])
        exchanges[f"{TOTAL}@{group}"] = own


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


def _join_links(exchanges: Exchanged) -> None:
    """Put global ranks in place of those in the groups, join the ranks, and add sums."""
    members: dict[str, dict[str, int]] = {}
    for name, ranks in exchanges.items():
        of_group = members.setdefault(group_of(name), {})
        for rank, links in ranks.items():
            for link in links:
                source, target = _ends(link)
                if target is None:
                    break
                if source == target:
                    of_group.setdefault(source, rank)
    sums: dict[str, dict[str, dict[str, Any]]] = {}
    for name, ranks in exchanges.items():
        group = group_of(name)
        of_group = members[group]
        known: dict[str, dict[str, Any]] = {}
        for links in ranks.values():
            for link, values in links.items():
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
        exchanges[name] = joined
        if joined and not any(part in name for part in _PARTS):
            all_links = sums.setdefault(group, {})
            for ends, total in joined.items():
                _add_link(all_links.setdefault(ends, _link()), total)
    for group, all_links in sums.items():
        for total in all_links.values():
            total[_SPEED] = _ratio(total[_TRANSIT_MB], total[_TRANSIT_MS])
        exchanges[f"{TOTAL}@{group}"] = all_links


@lru_cache(maxsize=1 << 16)
def _ends(link: str) -> tuple[str, str | None]:
    """Return source and target of a link; no target where it names none."""
    source, sign, rest = link.partition("-")
    return source, rest.partition("-")[0] if sign else None


def _link() -> dict[str, Any]:
    return {_TRANSPORT: "", _TRANSIT_MS: 0, _TRANSIT_MB: 0, _NAME: ""}


def _add_link(total: dict[str, Any], link: dict[str, Any]) -> None:
    total[_TRANSPORT] = link.get(_TRANSPORT)
    total[_NAME] = link.get(_NAME, "")
    total[_TRANSIT_MS] += link.get(_TRANSIT_MS, 0)
    total[_TRANSIT_MB] += link.get(_TRANSIT_MB, 0)
