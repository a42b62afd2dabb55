"""Every recorder writes the right segments and strings, and counts refused records."""

import errno
import shutil
import struct

import pytest
from ms_profiler.store import account, reader
from recorders import KINDS, descriptors, finish, poll, run_program
from store_check import SPAN, STEP, read_store

pytest_plugins = ["recorder_fixtures"]


class TestRefusal:
    def test_pause(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        running = recorder.begin(name, 1, 1)
        recorder.pause(True)
        assert recorder.begin(name, 1, 2) == 0
        recorder.instant(name, 1, 2)
        recorder.counter(name, 2)
        assert recorder.record(STEP, 1, 0, name, 1, 2, 3)
        recorder.end(running)
        recorder.pause(False)
        recorder.end(recorder.begin(name, 1, 4))
        store = finish(recorder, folder)
        assert [(record.kind, record.arg) for record in store.records] == [(SPAN, 1), (STEP, 3), (SPAN, 4)]
        assert store.dropped == 0, "a pause is no loss"

    def test_fine(self, recorder, folder):
        recorder.open(str(folder))
        name = recorder.intern("x")
        recorder.fine(False)
        assert recorder.begin(name, 0x41) == 0
        recorder.instant(name, 0x40)
        assert recorder.record(SPAN, 0x41, 0, name, 1, 2, 3) is False
        recorder.end(recorder.begin(name, 1, 5))
        recorder.fine(True)
        recorder.end(recorder.begin(name, 0x41, 6))
        store = finish(recorder, folder)
        assert [record.arg for record in store.records] == [5, 6]
        assert (store.dropped, store.dropped_limit) == (0, 0), "a step that is not sampled is no loss"

    def test_open_resets_both(self, recorder, tmp_path):
        for folder in (tmp_path / "a", tmp_path / "b"):
            folder.mkdir()
            recorder.open(str(folder))
            assert recorder.begin(recorder.intern("x"), 0x41) > 0
            recorder.pause(True)
            recorder.fine(False)

    def test_limits(self, recorder, folder):
        limit = 600_000
        fine, coarse = limit // 2, limit - limit // 8
        recorder.open(str(folder), first_slots=64, limit=limit)
        names = [recorder.intern(text) for text in ("fine", "coarse", "step")]
        for number in range(40_000):
            recorder.end(recorder.begin(names[0], 0x41, number))
            recorder.end(recorder.begin(names[1], 1, number))
            if number % 40 == 0:
                assert recorder.record(STEP, 1, 0, names[2], 10 * number, 10 * number + 5, number)
        assert recorder.room() == 0
        store = finish(recorder, folder)
        fine_bytes, coarse_bytes = len(store.spans("fine")) * 32, len(store.spans("coarse")) * 32
        assert fine / 16 < fine_bytes <= fine, "segments double, and the next is ready"
        assert fine_bytes < coarse_bytes
        assert coarse / 2 < fine_bytes + coarse_bytes <= coarse
        assert [record.arg for record in store.named("step")] == list(range(0, 40_000, 40)), "they go on longest"
        assert store.bytes <= limit
        # the recorder also refuses samples of the processor, one after a while
        assert store.dropped == store.dropped_limit
        assert 0 <= store.dropped - (80_000 - (fine_bytes + coarse_bytes) // 32) < 100
        # the first fine spans are stored, without a gap
        assert [record.arg for record in store.spans("fine")] == list(range(fine_bytes // 32))

    def test_nothing_goes_beyond_the_limit(self, recorder, folder):
        most, count = 3_000_000, 120_000
        recorder.open(str(folder), first_slots=64, limit=most)  # other tests' strings take a megabyte of it
        name = recorder.intern("step")
        recorded = [recorder.record(STEP, 1, 0, name, number, number + 1, number) for number in range(count)]
        first = recorded.index(False)
        # while a record is refused, another thread may be making one more segment: at most a sixteenth of the limit
        assert first > 10_000 and sum(recorded[first:]) <= most // 16 // 32
        for number in range(3000):
            recorder.intern(f"some text {number}")
        assert finish(recorder, folder).bytes <= most

    def test_a_limit_without_room_is_an_error_and_leaves_nothing(self, recorder, folder):
        for limit in (0, 1, 12_000, 20_000):
            with pytest.raises(OSError, match="quota"):
                recorder.open(str(folder), first_slots=64, limit=limit)
            assert not recorder.begin(1, 1) and not list(folder.iterdir())

    def test_all_that_join_an_account_share_it(self, recorder, tmp_path):
        """The recorders join one after another, like short-lived children of a job. A closed store still counts."""
        path, limit = tmp_path / "account", 400_000
        taken = []
        for number in range(40):
            folder = tmp_path / str(number)
            folder.mkdir()
            try:
                # the account keeps the limit of the first process
                recorder.open(str(folder), first_slots=64, account=str(path), limit=limit * (number + 1))
            except OSError as error:
                assert error.errno == errno.EDQUOT
                taken.append(0)
                continue
            name = recorder.intern("x")
            for turn in range(1000):
                recorder.end(recorder.begin(name, 1, turn))
            taken.append(finish(recorder, folder).bytes)
        assert limit / 2 < sum(taken) <= limit
        assert taken[0] > 32_000 and not taken[-1], "who comes first"
        found = account.read(str(path))
        assert found.limit == limit and found.refused == taken.count(0) > 10
        assert sum(taken) + 12288 * (40 - found.refused) == found.taken

    def test_others_take_of_the_same_account(self, recorder, folder):
        recorder.spend(1000)  # does not count, because no store is open
        assert recorder.room() == 0
        recorder.open(str(folder), first_slots=64, limit=10_000_000)
        room = recorder.room()
        assert 4_000_000 < room < 5_000_000
        recorder.spend(100_000)
        assert recorder.room() == room - 100_000
        recorder.set_aside(200_000)
        assert recorder.room() == room - 200_000
        recorder.spend(-100_000)
        recorder.set_aside(-200_000)
        assert recorder.room() == room
        recorder.spend(5_000_000)
        name = recorder.intern("x")
        assert recorder.begin(name, 0x41) == 0 and recorder.begin(name, 1) > 0

    def test_wrong_types_are_errors_of_the_caller(self, recorder, folder):
        recorder.open(str(folder))
        with pytest.raises(TypeError):
            recorder.begin("x", 1)
        with pytest.raises(TypeError):
            recorder.begin(1)
        with pytest.raises((TypeError, AttributeError)):
            recorder.intern(b"x")
        with pytest.raises((TypeError, struct.error)):
            recorder.counter(1, "x")
        recorder.end(recorder.begin(recorder.intern("x"), 1))
        assert len(finish(recorder, folder).spans("x")) == 1


class TestSegments:
    def test_they_double(self, recorder, folder):
        recorder.open(str(folder), first_slots=128)
        name = recorder.intern("x")
        count = 300_000 if recorder.kind == "native" else 20_000
        for number in range(count):
            recorder.instant(name, 1, number)
        store = finish(recorder, folder)
        capacities = sorted(store.capacities)
        expected = [min(128 << index, 131072) for index in range(len(capacities))]
        assert capacities == expected
        assert sum(expected[:-1]) < count + len(expected) <= sum(expected)
        assert [record.arg for record in store.records] == list(range(count))

    def test_descriptors_are_closed(self, recorder, folder):
        recorder.open(str(folder), first_slots=8)
        for _ in range(1000):
            recorder.end(recorder.begin(recorder.intern("x"), 1))
        # the helper thread may be making a segment just now
        poll(lambda: not any(target.startswith(str(folder)) for target in descriptors()))

    def test_a_removed_directory_stops_the_recording_only(self, recorder, folder):
        recorder.open(str(folder), first_slots=64)
        name = recorder.intern("x")
        for _ in range(20):
            recorder.end(recorder.begin(name, 1))
        while folder.exists():  # the helper thread may be making a segment just now
            shutil.rmtree(folder, ignore_errors=True)
        for number in range(5000):
            recorder.end(recorder.begin(name, 1))
            recorder.intern(f"string {number}")
        stats = recorder.stats()
        assert stats.failure == errno.ENOENT
        assert stats.records + stats.dropped >= 5020
        assert stats.dropped > 4000
        assert stats.dropped_limit == 0
        recorder.close()


class TestStrings:
    def test_ids_are_by_content(self, recorder, folder):
        recorder.open(str(folder))
        assert recorder.intern("") == 0
        first = recorder.intern("one")
        assert first > 0
        assert recorder.intern("".join(["o", "ne"])) == first
        assert recorder.intern("two") != first
        store = finish(recorder, folder)
        assert store.strings[first] == "one"

    @pytest.mark.parametrize(
        ("text", "stored"),
        [
            ("寿司 🍣 é", "寿司 🍣 é"),
            ("a\0b\n", "a\0b\n"),
            ("half \ud800 pair", "half ? pair"),
            ("x" * 31, "x" * 31),
            ("x" * 32, "x" * 32),
            ("x" * 33, "x" * 33),
            ("y" * 8160, "y" * 8160),
            ("y" * 8161, "y" * 8160),
            ("y" * 100_000, "y" * 8160),
            ("é" * 4080 + "!", "é" * 4080),
            ("z" + "é" * 5000, "z" + "é" * 4079),
            ("zz" + "🍣" * 5000, "zz" + "🍣" * 2039),
        ],
        ids=lambda text: ascii(text[:12]),
    )
    def test_texts(self, recorder, folder, text, stored):
        recorder.open(str(folder), first_slots=8)
        identity = recorder.intern(text)
        recorder.instant(identity, 1)
        (record,) = finish(recorder, folder).records
        assert record.name == stored

    def test_many(self, recorder, folder):
        recorder.open(str(folder), first_slots=8)
        texts = [f"string number {number} {'x' * (number % 300)}" for number in range(5000)]
        ids = [recorder.intern(text) for text in texts]
        assert len(set(ids)) == 5000
        assert [recorder.intern(text) for text in texts] == ids
        for identity in ids[::100]:
            recorder.instant(identity, 1)
        store = finish(recorder, folder)
        assert [store.strings[identity] for identity in ids] == texts
        assert [record.name for record in store.records] == texts[::100]

    def test_an_id_outlives_the_store(self, recorder, tmp_path):
        early = recorder.intern("before any store")
        assert early > 0
        for path in (tmp_path / "first", tmp_path / "second"):
            path.mkdir()
            recorder.open(str(path))
            late = recorder.intern("since the first store")
            recorder.instant(early, 1)
            recorder.instant(late, 1)
            recorder.close()
            records = read_store(path).records
            assert [record.name for record in records] == ["before any store", "since the first store"]

    def test_names_of_short_lived_objects_are_limited(self, recorder, tmp_path):
        """The store has the refusals at once, because a killed process writes nothing at its end."""
        folder = tmp_path / "process_1"
        folder.mkdir()
        recorder.open(str(folder))
        ids = [recorder.intern_one_of(f"net {number}", 100) for number in range(300)]
        assert all(ids[:100]) and not any(ids[100:])
        assert recorder.intern_one_of("net 7", 100) == ids[7]
        assert recorder.intern_one_of("one more", 101) and recorder.intern("ours")
        recorder.close()
        store = reader.read_process(str(folder), reader.ReadCounts())
        assert (store.unnamed, recorder.stats().unnamed) == (200, 200)
        assert "200 names were refused" in store.info.missing[0]["why"]

    @pytest.mark.parametrize("texts", ["many", "large"])
    @pytest.mark.parametrize("kind", KINDS)
    def test_they_are_bounded(self, kind, texts, tmp_path):
        """An endless series of names fills neither memory nor disk, and known names can still be used."""
        count = {"many": 70_000, "large": 2000}[texts]
        for line in run_program("recorder_names.py", kind, tmp_path, texts).splitlines():
            kept, unnamed, dropped, size = map(int, line.split())
            assert 65533 < kept < 65536 if texts == "many" else 900 < kept < 1050
            assert (unnamed, dropped) == (count - kept, 0)
            assert size < 9 << 20
