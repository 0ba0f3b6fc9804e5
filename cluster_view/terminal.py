"""`surgekit top`: nodes, functions and decisions as tables in a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import DataTable, Footer, Input, Static, TabbedContent, TabPane
from textual.widgets.data_table import RowKey

from cluster_view.columns import (
    DECISIONS,
    FUNCTIONS,
    NODES,
    Column,
    of_decision,
    of_function,
    of_node,
    order,
)
from cluster_view.cost_line import cost_line
from cluster_view.model import Change, Snapshot, apply
from cluster_view.state import State

__all__ = ["Terminal"]

Row = TypeVar("Row")
_ROUND_S = 0.5


class RowsTable(DataTable[Text], Generic[Row]):
    """Rows by key, sorted and filtered. Cells are Text: a tenant's brackets are no markup."""

    def __init__(
        self,
        name: str,
        columns: tuple[Column[Row], ...],
        more: Callable[[Row], str],
        descending: bool = False,
    ) -> None:
        """`more`: what is said below the tables of the row under the cursor."""
        super().__init__(id=name, cursor_type="row", zebra_stripes=True)
        self._more = more
        self._of, self._by, self._descending, self._wanted = columns, 0, descending, ""
        self._rows: dict[str, Row] = {}
        self._shown: list[str] = []

    def on_mount(self) -> None:
        for column in self._of:
            self.add_column(column.title, key=column.title)

    def show(self, rows: Mapping[str, Row], changed: Mapping[str, object]) -> None:
        """`changed`: the keys of rows that are not as they were."""
        self._rows = dict(rows)
        self._lay_out(changed)

    def filter(self, wanted: str) -> None:
        self._wanted = wanted
        self._lay_out({})

    def sort_by(self, column: int) -> None:
        """Once more: the other way round."""
        self._descending = not self._descending if column == self._by else False
        self._by = column
        self._lay_out({})

    def more(self) -> str:
        """Of the row under the cursor."""
        if not 0 <= self.cursor_row < len(self._shown):
            return ""
        return self._more(self._rows[self._shown[self.cursor_row]])

    @property
    def sorted_by(self) -> int:
        return self._by

    def _lay_out(self, changed: Mapping[str, object]) -> None:
        shown = order(self._rows, self._of, self._by, self._descending, self._wanted)
        before, now = set(self._shown), set(shown)
        for key in before - now:
            self.remove_row(key)
        for key in shown:
            if key not in before:
                self.add_row(*self._cells(key), key=key)
            elif key in changed:
                for column, cell in zip(self._of, self._cells(key), strict=True):
                    self.update_cell(key, column.title, cell)
        if shown != self._shown:
            places = {RowKey(key): place for place, key in enumerate(shown)}
            self._place(places)
            self._shown = shown

    def _place(self, places: Mapping[RowKey, int]) -> None:
        first = self._of[0].title
        by_cell = {id(self.get_cell(key, first)): place for key, place in places.items()}
        self.sort(first, key=lambda cell: by_cell[id(cell)])

    def _cells(self, key: str) -> list[Text]:
        row = self._rows[key]
        return [Text(column.cell(row), no_wrap=True, overflow="ellipsis") for column in self._of]


class Terminal(App[None]):
    CSS = """
    #head { height: 1; background: $primary; color: $text; padding: 0 1; }
    #filter { display: none; height: 3; }
    #filter.wanted { display: block; }
    #below { height: 3; padding: 0 1; border-top: solid $primary; }
    TabbedContent, DataTable { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("1", "tab('nodes')", "Nodes"),
        Binding("2", "tab('functions')", "Functions"),
        Binding("3", "tab('decisions')", "Decisions"),
        Binding("s", "sort(1)", "Sort by next"),
        Binding("r", "sort(0)", "Reverse"),
        Binding("slash", "filter", "Filter"),
        Binding("escape", "clear", "No filter", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = "#node-rows"

    def __init__(self, state: State, take: Callable[[], None], clock: Callable[[], float]) -> None:
        """`take` gives the state what came in; `clock` is Unix time."""
        super().__init__()
        self._state, self._take, self._clock = state, take, clock
        self._seen: Snapshot = state.snapshot(clock())
        self._head, self._below = Static(id="head", markup=False), Static(id="below", markup=False)
        self.nodes = RowsTable("node-rows", NODES, of_node)
        self.functions = RowsTable("function-rows", FUNCTIONS, of_function)
        self.decisions = RowsTable("decision-rows", DECISIONS, of_decision, descending=True)

    def compose(self) -> ComposeResult:
        yield self._head
        with TabbedContent(initial="nodes"):
            for title, table in (
                ("nodes", self.nodes),
                ("functions", self.functions),
                ("decisions", self.decisions),
            ):
                with TabPane(title.capitalize(), id=title):
                    yield table
        yield self._below
        yield Input(id="filter", placeholder="words that rows must have; Enter keeps them, Escape drops them")
        yield Footer()

    def on_mount(self) -> None:
        self.title = self._seen["cluster"]
        self.set_interval(_ROUND_S, self.round)
        self.call_after_refresh(self.round)

    def round(self) -> None:
        """Take what came in and draw what it changed."""
        self._take()
        change = self._state.change(self._clock())
        if change is not None:
            self._seen = apply(self._seen, change)
            self._draw(change)
            self._say_more()
        head = self._seen["head"]
        rate, starts = head["requests_per_s"], head["cold_starts_last_minute"]
        more = "" if rate is None else f"  {rate:.1f} requests/s"
        more += "" if starts is None else f"  {starts:.0f} cold starts in the last minute"
        self._head.update(Text(f"{self._seen['cluster']}  {cost_line(self._seen)}{more}"))

    def _draw(self, change: Change) -> None:
        self.nodes.show(self._seen["nodes"], change["nodes"])
        self.functions.show(self._seen["functions"], change["functions"])
        if change["decisions"]:
            # The time sorts them; the number keeps those of one moment apart.
            latest = enumerate(reversed(self._seen["decisions"]))
            self.decisions.show(numbered := {f"{n:03}": d for n, d in latest}, numbered)

    @property
    def _table(self) -> RowsTable[Any]:
        active = self.query_one(TabbedContent).active
        tables: dict[str, RowsTable[Any]] = {"functions": self.functions, "decisions": self.decisions}
        return tables.get(active, self.nodes)

    def action_tab(self, name: str) -> None:
        self.query_one(TabbedContent).active = name
        self.call_after_refresh(self._table.focus)  # what is hidden takes no focus
        self._say_more()

    def action_sort(self, step: int) -> None:
        table = self._table
        table.sort_by((table.sorted_by + step) % len(table.columns))

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        if isinstance(event.data_table, RowsTable):
            event.data_table.sort_by(event.column_index)

    def on_data_table_row_highlighted(self) -> None:
        self._say_more()

    def _say_more(self) -> None:
        self._below.update(Text(self._table.more()))

    def action_filter(self) -> None:
        wanted = self.query_one("#filter", Input)
        wanted.add_class("wanted")
        wanted.focus()

    def action_clear(self) -> None:
        wanted = self.query_one("#filter", Input)
        wanted.value = ""
        wanted.remove_class("wanted")
        self._table.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        for table in (self.nodes, self.functions, self.decisions):
            table.filter(event.value)

    def on_input_submitted(self) -> None:
        self._table.focus()
