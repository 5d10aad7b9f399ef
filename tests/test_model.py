"""The reference holds what it says of itself."""

from hypothesis import given
from hypothesis import strategies as st

from model.lanes import Cut, check_epoch


@given(rows=st.lists(st.integers(0, 50), max_size=20), n=st.integers(1, 12))
def test_any_lanes_cut_to_batches_are_a_whole_epoch(rows: list[int], n: int) -> None:
    cut = Cut(n)
    lanes = {(0, 0, lane): count for lane, count in enumerate(rows)}
    for lane, count in lanes.items():
        cut.add_lane(lane, count)
    check_epoch(cut.finish(drop_remainder=False), lanes, n)


@given(rows=st.lists(st.integers(0, 50), max_size=20), n=st.integers(1, 12))
def test_dropping_the_remainder_loses_less_than_a_batch(rows: list[int], n: int) -> None:
    cut = Cut(n)
    for lane, count in enumerate(rows):
        cut.add_lane((0, 0, lane), count)
    kept = sum(span.rows for batch in cut.finish(drop_remainder=True) for span in batch)
    assert kept == sum(rows) - sum(rows) % n
