"""Runs the programs of one plan, lane by lane. The same in an executor and for `inline`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from penstock import _core
from penstock._executor import environment, rows, seeds
from penstock._executor.collate import Collator, view
from penstock._executor.failures import CodeError, from_exception
from penstock._executor.specs import Column, RowSpec
from penstock._executor.stages import FUNCTIONS, SOURCES, Function, Item, Part

MAX_CHUNK = 64  # rows that pass through the functions together
SEND_AFTER = 0.02  # seconds: whole groups do not wait longer for more
ANSWER_AFTER = 1.0  # seconds: nothing waits longer, so that who watches sees that it works
LANE_END = (1 << 64) - 1

Open = dict[str, Any]


class Program:
    """Consecutive code operators: a source, or rows that are fed to it, and functions."""

    def __init__(self, nodes: list[tuple[str, list[int], dict[str, Any]]], numbers: list[int]) -> None:
        self.source: Callable[[Part, int], Iterator[Any]] | None = None
        self.source_label = ""
        self.nodes, self.first = nodes, numbers[0]
        self.functions: list[Function] = []
        for number in numbers:
            op, _, attrs = nodes[number]
            with environment.loading(op, attrs):
                if op in SOURCES:
                    self.source = SOURCES[op](attrs)
                    self.source_label = f"{op}({attrs.get('label', '')})"
                else:
                    self.functions.append(FUNCTIONS[op](op, number, attrs))
            self.spec = RowSpec.from_attrs(attrs)
        self.keeps_rows = all(function.op in ("map", "map_batch") for function in self.functions)
        self.chunk = max([MAX_CHUNK, *(function.batch_size for function in self.functions)])
        self.batched = max([1, *(function.batch_size for function in self.functions)])

    def array_inputs(self, input: RowSpec) -> frozenset[int]:
        """Places of the columns whose rows its first function sees as arrays, though they are ragged."""
        if not any(column.nested for column in input.columns):
            return frozenset()
        op, inputs, _ = self.nodes[self.first]
        return rows.array_columns(self.nodes, inputs[0], (column.name for column in input.columns), unbatched=op == "map_batch")


class Lane:
    """One lane of a program: rows wait here until they are written into a block."""

    def __init__(self, program: Program, open: Open) -> None:
        self.program = program
        self.key = seeds.Key(open["seed"], open["epoch"], open["replica"], open["ordinal"])
        self.first = (open["from_seq"], open["from_child"])
        self.rows = Collator(program.spec, program.keeps_rows)
        self.reached = self.first  # what was written ends here: a block begins where the last one ended, though rows were filtered between
        self.next_seq = open["from_seq"]  # of the source row to take next
        self.ended = False
        self.error: CodeError | None = None
        self.told: dict[str, Any] | None = None
        self.wanted: dict[str, Any] | None = None  # of the block that was written last; of the next it will be about the same
        self.input_spec = _input_spec(open["input"]) if open.get("input") else None
        self.input: Iterator[Any] = iter(())
        self.array_inputs = program.array_inputs(self.input_spec) if self.input_spec else frozenset()
        self.part = Part(self.key, open["part"], open["parts"])
        self.source: Iterator[Any] | None = None

    def fill(self, want: dict[str, Any], block: memoryview | None, input_over: bool) -> dict[str, Any]:
        if block is not None and self.input_spec is not None:
            self._take(block)
        if self.told is None:
            self.wanted = want
            self.told = self._work_here(want, input_over)
        return self.told

    def work_ahead(self) -> bool:
        """One row for the next block; whether there is more to do for it."""
        want = self.wanted
        if want is None or self.told is not None or self.ended or self.error is not None or self.program.batched > 1:
            return False
        if self.next_seq >= want["to"] or self._complete(want, waited=0.0):
            return False
        return self._advance(1) > 0

    def write(self, places: list[list[int]], block: memoryview) -> None:
        assert self.told is not None
        self.rows.write(self.told["rows"], [block[offset : offset + length] for offset, length in places])
        self.reached = (self.told["end_seq"], self.told["end_child"])
        if self.wanted is not None:
            self.wanted["phase"] = (self.wanted["phase"] + self.told["rows"]) % self.wanted["group"]
        self.told = None

    def _take(self, block: memoryview) -> None:
        # A copy: functions may keep or return views of what they were given, and the memory is used again.
        _, count, leaves = view(self.input_spec, memoryview(bytearray(block)))  # type: ignore[arg-type]
        build = self.input_spec.build  # type: ignore[union-attr]
        self.input = (build(row) for row in rows.split(leaves, self.array_inputs)) if count else iter(())

    # ---- work

    def _work_here(self, want: dict[str, Any], input_over: bool) -> dict[str, Any]:
        if environment.in_executor:
            return self._work(want, input_over)
        with seeds.kept():  # the loop draws from the same generators
            return self._work(want, input_over)

    def _work(self, want: dict[str, Any], input_over: bool) -> dict[str, Any]:
        begin = time.monotonic()
        while True:
            waited = time.monotonic() - begin
            if self._complete(want, waited):
                return self._tell(want, over=waited >= ANSWER_AFTER)
            if self.error is not None or self.ended or self.next_seq >= want["to"]:
                return self._finish(want, over=self.ended)
            if waited >= ANSWER_AFTER:
                return self._answer(again=True)
            got = self._advance(self._quantum(want))
            if got == 0 and self.program.source is None and self.error is None:
                # The input's end may be that of a range, and more may follow.
                return self._finish(want, over=True) if input_over else self._answer(hungry=True)

    def _complete(self, want: dict[str, Any], waited: float) -> bool:
        if not len(self.rows):
            return False
        if want["by_group"]:
            return len(self.rows) >= int(want["group"])
        if self.rows.bytes >= want["cap"] or waited >= ANSWER_AFTER:
            return True
        return self._groups(want) > 0 and (self.rows.bytes >= want["target"] or waited >= SEND_AFTER)

    def _groups(self, want: dict[str, Any]) -> int:
        if want["by_group"]:
            return int(want["group"]) if len(self.rows) >= want["group"] else 0
        end = want["phase"] + len(self.rows)
        return int(max(end - end % want["group"] - want["phase"], 0))

    def _quantum(self, want: dict[str, Any]) -> int:
        """Rows to take next: about what is missing to the target, by the size of rows so far."""
        limit = int(min(want["to"] - self.next_seq, self.program.chunk))
        if not len(self.rows):
            return min(self.program.batched, limit)
        missing = max(int(want["target"]) - self.rows.bytes, 1)
        return max(1, min(limit, max(missing * len(self.rows) // max(self.rows.bytes, 1), self.program.batched)))

    def _advance(self, rows: int) -> int:
        """Takes up to so many source rows through the functions; how many there were."""
        items: list[Item] = []
        try:
            for row in self._source_rows(rows):
                items.append(Item((self.next_seq + len(items), 0), row))
        except Exception as error:
            doing = self.program.source_label
            self.error = from_exception(error, doing, self.next_seq + len(items))
        taken = len(items)
        for function in self.program.functions:
            done: list[Item] = []
            try:
                function.apply(self.key, items, done)
            except CodeError as error:
                self.error = error  # of an earlier row than the source's
            items = done
        self._keep(items)
        self.next_seq += taken
        return taken

    def _source_rows(self, rows: int) -> Iterator[Any]:
        if self.program.source is None:
            for _, row in zip(range(rows), self.input):
                yield row
            return
        if self.source is None:
            self.source = self.program.source(self.part, self.next_seq)
        for _ in range(rows):
            try:
                row = next(self.source)
            except StopIteration:
                self.ended = True
                return
            yield row

    def _keep(self, items: list[Item]) -> None:
        for cursor, row in items:
            if cursor < self.first:
                continue
            try:
                self.rows.add(cursor, row)
            except Exception as error:
                self.error = from_exception(error, "a row of the dataset", cursor[0])
                return

    # ---- answers

    def _finish(self, want: dict[str, Any], over: bool) -> dict[str, Any]:
        if len(self.rows):
            return self._tell(want, over=True)
        if self.error is not None:
            raise self.error
        return self._answer(ended=over)

    def _answer(self, **flags: bool) -> dict[str, Any]:
        cursor = max((self.next_seq, 0), self.first)
        answer = {"rows": 0, "first_seq": cursor[0], "first_child": cursor[1], "end_seq": cursor[0], "end_child": cursor[1]}
        flags = {"has_cursors": False, "hungry": False, "ended": False, "again": False, **flags}
        self.told = None
        return {**answer, **flags, "lengths": [], "held_bytes": self.rows.bytes}

    def _tell(self, want: dict[str, Any], over: bool) -> dict[str, Any]:
        groups = self._groups(want)
        over = over or self.error is not None or self.ended
        rows = groups or len(self.rows)
        if not want["by_group"]:
            rows = len(self.rows) if over and self.rows.bytes <= want["target"] else rows
            rows = min(rows, self.rows.rows_within(want["cap"]))
        cursors = self.rows.cursors
        if want["by_group"]:  # of the group alone: whoever makes it again has taken others behind it, and tells the same
            end = _after(cursors[rows - 1], (0, 0), self.program.keeps_rows)
        else:
            end = cursors[rows] if rows < len(cursors) else _after(cursors[-1], (self.next_seq, 0), self.program.keeps_rows)
        return {
            "rows": rows,
            "first_seq": self.reached[0],
            "first_child": self.reached[1],
            "end_seq": end[0],
            "end_child": end[1],
            "has_cursors": not self.program.keeps_rows,
            "hungry": False,
            "ended": False,
            "again": False,
            "lengths": self.rows.lengths(rows),
            "held_bytes": self.rows.bytes,
        }

    def answer(self, want: dict[str, Any], block: memoryview | None, input_over: bool) -> dict[str, Any]:
        told = self.fill(want, block, input_over)
        self.told = told if told["rows"] else None
        return told


def _after(last: tuple[int, int], reached: tuple[int, int], keeps_rows: bool) -> tuple[int, int]:
    """The cursor after the last row that was made: rows that were filtered behind it are done with too."""
    return (last[0] + 1, 0) if keeps_rows else max(reached, (last[0], last[1] + 1))


def _input_spec(given: dict[str, Any]) -> RowSpec:
    columns = tuple(Column(name, dtype, tuple(shape)) for name, dtype, shape in given["columns"])
    return RowSpec(columns, _structure(given["structure"]))


def _structure(node: Any) -> Any:
    if node is None:
        return None
    if "names" in node:
        return dict(zip(node["names"], map(_structure, node["children"])))
    return tuple(map(_structure, node["children"]))


class Runner:
    """All lanes of one plan in this process."""

    def __init__(self, plan: bytes) -> None:
        self.nodes = _core.Plan.parse(plan).nodes()
        environment.check(self.nodes)
        self.programs: dict[tuple[int, ...], Program] = {}
        self.lanes: dict[int, Lane] = {}

    def open(self, lane: int, open: Open) -> None:
        numbers = tuple(open["nodes"])
        if numbers not in self.programs:
            self.programs[numbers] = Program(self.nodes, list(numbers))
        self.lanes[lane] = Lane(self.programs[numbers], open)

    def fill(self, lane: int, want: dict[str, Any], block: memoryview | None, input_over: bool) -> dict[str, Any]:
        return self.lanes[lane].answer(want, block, input_over)

    def write(self, lane: int, places: list[list[int]], block: memoryview) -> None:
        self.lanes[lane].write(places, block)

    def work_ahead(self, lane: int) -> bool:
        return lane in self.lanes and self.lanes[lane].work_ahead()

    def close(self, lane: int) -> None:
        self.lanes.pop(lane, None)
