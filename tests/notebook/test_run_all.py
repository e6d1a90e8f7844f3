"""*Run All*, as nbclient and nbconvert do it."""

import pytest

from tests.notebook.conftest import PATIENCE_S

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")


def notebook(*cells: str) -> object:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])


def test_runs_through_keeps_the_output_and_stops_at_a_failing_cell() -> None:
    cells = ("%%profile p\nprint('mine')\n41 + 1", "_", "%%profile --quiet\n1/0", "reached = True")
    book = notebook("%load_ext notebook_prof", *cells)
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="ZeroDivisionError"):
        nbclient.NotebookClient(book, timeout=PATIENCE_S, startup_timeout=PATIENCE_S).execute()
    first, second = (book["cells"][i]["outputs"] for i in (1, 2))  # type: ignore[index]
    assert first[0]["text"] == "mine\n"
    assert [out["data"]["text/plain"] for out in first if out["output_type"] == "execute_result"] == ["42"]
    assert second[0]["data"]["text/plain"] == "42"
    assert not [out for out in first if out.get("name") == "stderr"]
    assert book["cells"][4]["execution_count"] is None  # type: ignore[index]
