"""Traces from CSV files: what is read, and that a mistake names file, row and column."""

import numpy as np
import pytest

from carico_twin.evaluate import file_mistake
from carico_twin.evaluate.trace import reading


def test_a_column_is_a_series_and_a_row_a_sample() -> None:
    trace = reading.read("a.csv", b"web,db\n1,2.5\n3,0\n5e-1,4\n")
    assert trace.names == ("web", "db")
    np.testing.assert_array_equal(trace.series, [[1.0, 3.0, 0.5], [2.5, 0.0, 4.0]])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\xef\xbb\xbfweb,db\n1,2\n", id="a byte order mark"),
        pytest.param(b"web,db\r\n1,2\r\n", id="line ends of Windows"),
        pytest.param(b"web, db\n 1, 2 \n\n\n", id="spaces, and empty rows at the end"),
        pytest.param(b'"web","db"\n"1","2"', id="quotes, and no line end"),
    ],
)
def test_harmless_variants_are_read(content: bytes) -> None:
    trace = reading.read("a.csv", content)
    assert trace.names == ("web", "db")
    assert trace.series.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "a.csv, row 1: got nothing, expected CSV: a header", id="empty"),
        pytest.param(b" \n\n", "a.csv, row 1: got nothing, expected CSV: a header", id="only white space"),
        pytest.param(b"a,b\n", "a.csv, row 2: got nothing, expected a row of samples", id="only a header"),
        pytest.param(b"a,b\n1,2\n\xff,3\n", "a.csv, row 3: got b'\\xff', expected UTF-8 text", id="not text"),
        pytest.param(b"\x1f\x8b\x08", "a.csv, row 1: got b'\\x8b', expected UTF-8 text", id="compressed"),
        pytest.param(b"a,b\n\x00,1\n", "a.csv, row 2", id="NUL"),
        pytest.param(b"1,2\n3,4\n", "a.csv, row 1, column 1: got '1', expected a header", id="no header"),
        pytest.param(b"1,,3\n4,5,6\n", "a.csv, row 1, column 1: got '1', expected a header", id="no header, a gap"),
        pytest.param(b"NA,0.5,0.7\n4,5,6\n", "a.csv, row 1, column 2: got '0.5', expected a header", id="NA"),
        pytest.param(b"a;b\n1;2\n", "a.csv, row 1: got 'a;b', expected values separated by ','", id="semicolons"),
        pytest.param(b"a\tb\n1\t2\n", "(it contains a tab)", id="tabs"),
        pytest.param(b"a b\n1 2\n", "(it contains a space)", id="spaces"),
        pytest.param(b"1;2\n3;4\n", "(it contains ';')", id="semicolons and no header"),
        pytest.param(b"a\n1\n", "a.csv, row 1: got 'a', expected at least 2 series", id="one series"),
        pytest.param(b"a,b\n1,2\n3\n", "a.csv, row 3, column 2 ('b'): got nothing, expected 2 values", id="too few"),
        pytest.param(b"a,b\n1,2,3\n", "a.csv, row 2, column 3: got '3', expected 2 values", id="too many"),
        pytest.param(
            b"a,b\n1,2\n\n3,4\n", "a.csv, row 3, column 1 ('a'): got nothing, expected 2 values", id="an empty row"
        ),
        pytest.param(b"a,b\n1,2\n3,\n", "a.csv, row 3, column 2 ('b'): got nothing, expected a number", id="gap"),
        pytest.param(b"a,b\nnan,2\n", "a.csv, row 2, column 1 ('a'): got 'nan', expected a number", id="NaN"),
        pytest.param(b"a,b\n1,inf\n", "a.csv, row 2, column 2 ('b'): got 'inf', expected a number", id="infinite"),
        pytest.param(b"a,b\n1,-2\n", "a.csv, row 2, column 2 ('b'): got '-2', expected a number", id="negative"),
        pytest.param(b"a,b\n1,1e999\n", "got '1e999', expected a number", id="too large"),
        pytest.param(b"a,b\n1,1e101\n", "got '1e101', expected a number from 0 to 1e+100", id="squares overflow"),
        pytest.param(b"a,b\n1,x\n", "a.csv, row 2, column 2 ('b'): got 'x', expected a number", id="no number"),
        pytest.param(b'a,b\n1,"2\n3,4\n', "a.csv, row 2", id="a quote without end"),
    ],
)
def test_a_mistake_names_its_place(content: bytes, message: str) -> None:
    with pytest.raises(file_mistake.FileMistake) as found:
        reading.read("a.csv", content)
    assert message in str(found.value)
    assert "\n" not in str(found.value)
