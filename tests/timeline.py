"""Read the events of trace_view.json."""


def nanoseconds(text):
    """Return the nanoseconds of a text in microseconds with three decimals, without rounding."""
    whole, dot, fraction = text.partition(".")
    assert dot and len(fraction) == 3, text
    return int(whole) * 1000 + int(fraction)


def bounds(event):
    start = nanoseconds(event["ts"])
    return start, start + nanoseconds(event["dur"])


def lanes(events):
    """Return {pid: process name} and {(pid, tid): thread name}."""
    processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    threads = {
        (event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    return processes, threads
