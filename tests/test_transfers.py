import polars as pl
import pytest
from ascend_builder import exchanging, ns
from ms_profiler.analysis.metrics import transfers
from ms_profiler.analysis.readers import ascend_db, ascend_text

KEY = ("77", ns(20))


def parts_of(path, form):
    if form == "text":
        return ascend_text.read(str(path)).device.transfers
    return ascend_db.read(str(path), ascend_db.database(str(path))).device.transfers


@pytest.fixture(params=["text", "database"])
def parts(request, tmp_path):
    made = exchanging(tmp_path)
    return transfers.known(parts_of(getattr(made, request.param)(), request.param))


def test_times_are_those_of_the_plane_that_reaches_other_ranks(parts):
    # plane 1 copies for 5 + 8 us and waits 4 us before the first copy and 2 us after it; plane 2 ran meanwhile
    assert transfers.times(parts).rows() == [(*KEY, 13_000, 6_000, 4_000)]


def test_packets_are_those_of_all_planes_without_copies_on_the_chip(parts):
    rows = transfers.packets(parts).sort("bytes").rows()
    assert rows == [(*KEY, "HCCS", 2_000_000, 2, 13_000), (*KEY, "HCCS", 40_000_000, 1, 10_000)]


def test_links_name_both_ranks(parts):
    rows = transfers.links(parts).sort("target").rows()
    assert rows == [
        (*KEY, 0, 0, "LOCAL", 1_000_000, 1_000),
        (*KEY, 0, 1, "HCCS", 4_000_000, 13_000),
        (*KEY, 0, 2, "HCCS", 40_000_000, 10_000),
    ]


def test_a_single_plane_is_the_main_one(parts):
    single = parts.filter(pl.col("plane") == 2)
    assert transfers.times(single).rows() == [(*KEY, 10_000, 0, 0)]


def test_an_exchange_over_rdma_is_left_out_and_named(tmp_path):
    made = exchanging(tmp_path)
    made.exchange("hcom_allReduce__077_1_1", 60, 70, launch=7)
    made.part(0, "RDMASend", 60, 62, target=8, size=1_000_000, transport="RDMA")
    recording = ascend_text.read(str(made.text()))
    measured = transfers.times(transfers.known(recording.device.transfers))
    assert measured.select("group", "exchange_ns").rows() == [KEY]
    reasons = {item["what"]: item["why"] for item in recording.info.not_collected}
    assert "RDMA" in reasons["communication.json"] and "RDMA" in reasons["communication_matrix.json"]
