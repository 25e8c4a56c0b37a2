"""Metrics count right, stay bounded, and read as Prometheus reads them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.service.metrics import SERIES_MAX, Registry

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)",?')
_SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)")


def samples(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Read the exposition by the grammar of Prometheus' text format, and refuse any line outside it."""
    text = registry.exposition()
    assert text.endswith("\n")
    lines = [line for line in text[:-1].split("\n") if not line.startswith(("# HELP ", "# TYPE "))]
    return dict(map(_sample, lines))


def _sample(line: str) -> tuple[tuple[str, tuple[tuple[str, str], ...]], float]:
    sample = _SAMPLE.fullmatch(line)
    assert sample, line
    name, inside, number = sample.groups("")
    assert _LABEL.sub("", inside) == "", line
    labels = {label: _ESCAPE.sub(_unescaped, value) for label, value in _LABEL.findall(inside)}
    return (name, tuple(sorted(labels.items()))), float(number)


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]


def test_a_counter_counts_by_its_labels() -> None:
    registry = Registry()
    submits = registry.counter("submits_total", "Submits.", ("decision",))
    submits.add("allow")
    submits.add("allow", amount=2)
    submits.add("deny")
    assert submits.value("allow") == 3
    found = samples(registry)
    assert found["submits_total", (("decision", "allow"),)] == 3
    assert found["submits_total", (("decision", "deny"),)] == 1


def test_an_unlabelled_counter_is_shown_before_it_counts() -> None:
    registry = Registry()
    registry.counter("replays_total", "Replays.")
    assert registry.exposition() == (
        "# HELP replays_total Replays.\n# TYPE replays_total counter\nreplays_total 0\n"
    )


def test_a_histogram_counts_each_observation_up_to_and_including_its_bound() -> None:
    registry = Registry()
    sizes = registry.histogram("batch_size", "Commands.", ("store",), buckets=(1, 4, 16))
    for size in (1, 2, 4, 5, 100):
        sizes.observe(size, "sqlite")
    found = samples(registry)
    store = ("store", "sqlite")
    buckets = {
        bound: found["batch_size_bucket", (("le", bound), store)] for bound in ("1", "4", "16", "+Inf")
    }
    assert buckets == {"1": 1, "4": 3, "16": 4, "+Inf": 5}
    assert found["batch_size_sum", (store,)] == 112
    assert found["batch_size_count", (store,)] == 5


def test_a_gauge_is_read_when_someone_looks() -> None:
    registry = Registry()
    depth = [3]
    registry.gauge("queue_depth", "Waiting commands.", lambda: depth[0])
    registry.gauges("waiting", "By topic.", ("topic",), lambda: {("a",): 1.5, ("b",): float("inf")})
    assert samples(registry)["queue_depth", ()] == 3
    depth[0] = 0
    found = samples(registry)
    assert found["queue_depth", ()] == 0
    assert found["waiting", (("topic", "a"),)] == 1.5
    assert found["waiting", (("topic", "b"),)] == float("inf")


@given(st.text(), st.text())
def test_any_label_and_help_text_is_escaped_so_that_it_reads_back(value: str, about: str) -> None:
    registry = Registry()
    registry.counter("c_total", about, ("x", "y")).add(value, '\\n"')
    assert list(samples(registry)) == [("c_total", (("x", value), ("y", '\\n"')))]


def test_labels_that_never_repeat_do_not_eat_the_memory() -> None:
    registry = Registry()
    calls = registry.counter("calls_total", "Calls.", ("who", "what"))
    took = registry.histogram("took_seconds", "Time.", ("who",))
    for n in range(SERIES_MAX * 3):
        calls.add(f"caller-{n}", "x")
        took.observe(0.1, f"caller-{n}")
    found = samples(registry)
    assert found["calls_total", (("what", "other"), ("who", "other"))] == SERIES_MAX * 2
    assert found["took_seconds_count", (("who", "other"),)] == SERIES_MAX * 2
    assert sum(name == "calls_total" for name, _ in found) == SERIES_MAX + 1


def test_counts_from_many_threads_are_all_counted() -> None:
    registry = Registry()
    calls = registry.counter("calls_total", "Calls.", ("x",))
    took = registry.histogram("took_seconds", "Time.")
    with ThreadPoolExecutor(8) as pool:
        for _ in range(8):
            pool.submit(lambda: [(calls.add("a"), took.observe(0.5)) for _ in range(2000)])
    assert calls.value("a") == 16_000
    assert samples(registry)["took_seconds_count", ()] == 16_000


def test_mistakes_are_found_when_they_are_made() -> None:
    registry = Registry()
    counter = registry.counter("a_total", "A.", ("x",))
    with pytest.raises(ValueError, match="exists"):
        registry.counter("a_total", "A.")
    with pytest.raises(ValueError, match="cannot name"):
        registry.counter("bad-name", "B.")
    with pytest.raises(ValueError, match="cannot name"):
        registry.counter("b_total", "B.", ("bad label",))
    with pytest.raises(ValueError, match="labels"):
        counter.add()
    with pytest.raises(ValueError, match="only grows"):
        counter.add("x", amount=-1)
    with pytest.raises(ValueError, match="rising order"):
        registry.histogram("h", "H.", buckets=(2, 1))
