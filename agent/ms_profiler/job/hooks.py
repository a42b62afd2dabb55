"""Hook the frameworks of this process: replace functions of theirs by functions that record each call."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from ms_profiler.job import samplers
from ms_profiler.job.boundaries import WHY
from ms_profiler.job.frameworks import PLUGINS, base, import_hook
from ms_profiler.store.format import Category, Kind

if TYPE_CHECKING:
    from ms_profiler.job.host import Host
    from ms_profiler.job.recording import Recording


class Hooks:
    """Hook frameworks, each once, and report the state of each hook.

    Args:
        host: the session that records.
        devices: registers the tracing of devices with the session, and returns the functions to hook for it.
    """

    def __init__(self, host: "Host", devices: "Callable[[Host], list[base.Target]]") -> None:
        self._host = host
        self._devices = devices
        self.plugins: list[base.Plugin] = []
        #: functions of the samplers and devices that were registered before the import of a framework
        self._early: list[Callable[..., object]] = []
        self._awaited: set[str] = set()
        #: whether classes of ms-profiler replace the frameworks' own profiler classes
        self.redirects = False

    def add(self, name: str, start_ns: int = 0, end_ns: int = 0) -> bool:
        """Hook an imported framework; return False if it was hooked before.

        Args:
            name: top-level module of the framework.
            start_ns: begin of the framework's import, ns; 0 if unknown.
            end_ns: end of the framework's import, ns.
        """
        if any(plugin.framework == name for plugin in self.plugins):
            return False
        recorder = self._host.recorder
        if start_ns:
            label = recorder.intern(f"import {name}")
            recorder.record(Kind.SPAN, Category.IMPORT, 0, label, start_ns, end_ns, 0)
        plugin = PLUGINS[name]()
        plugin.apply(self._host)
        self.plugins.append(plugin)
        if self._early:
            # a framework's sources end first: MindSpore's queue is emptied before its device is detached
            self._host.sources.put_last(self._early)
        elif len(self.plugins) == 1:
            plugin.add(self._host, samplers.targets)
            plugin.add(self._host, self._devices)
        return True

    def add_all(self, imported: "Callable[[str, object, int, int], None]") -> None:
        """Hook every framework: now if it is imported, otherwise after its import.

        If no framework is imported yet, samplers and devices are registered alone.

        Args:
            imported: called after the import of a framework, to hook it.
        """
        for name in PLUGINS:
            if name in sys.modules:
                self.add(name)
            elif name not in self._awaited:
                self._awaited.add(name)
                import_hook.watch(name, after=imported)
        if not self.plugins and not self._early:
            base.Plugin("", (samplers.targets, self._devices)).apply(self._host)
            self._early = self._host.sources.calls

    def redirect(self) -> None:
        """Replace the frameworks' own profiler classes by classes of ms-profiler from now on."""
        if not self.redirects:
            self.redirects = True
            for plugin in self.plugins:
                plugin.redirect(self._host)

    def describe(self, recording: "Recording", works: bool = False) -> None:
        """Write the frameworks and the state of their hooks into the description of a run (`run_info.json`).

        Args:
            recording: the recording of the run.
            works: whether to add the execution mode and the device. They are known only after the job has computed
                something.
        """
        info = recording.info
        for plugin in self.plugins:
            version = getattr(sys.modules.get(plugin.framework), "__version__", "")
            info.hooks.update(plugin.state)
            info.framework.update({"name": plugin.framework, "version": str(version)})
            if works:
                info.framework.update(plugin.describe())
            recording.collected(plugin.forwarded_options)
            if plugin.left_running:
                recording.not_collected("device records", f"{plugin.left_running}; its result is beside this one")
        source = self._host.steps.source
        if source is not None:
            info.steps = {"source": source.name.lower(), "why": WHY[source]}
