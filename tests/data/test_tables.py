from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparring.data.tables import Table, read_csv, read_json, read_tsv
from sparring.errors import InputError

Reader = type(read_csv)


@pytest.fixture
def table(tmp_path: Path):
    def read(reader: Reader, content: str | bytes) -> Table:
        path = tmp_path / "data"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return reader(path)

    return read


@pytest.fixture
def refusal(tmp_path: Path, table):
    """The error, without the folder's name."""

    def read(reader: Reader, content: str | bytes) -> str:
        with pytest.raises(InputError) as caught:
            table(reader, content)
        message = str(caught.value)
        assert "\n" not in message
        return message.removeprefix(f"{tmp_path}/")

    return read


# -- csv ----------------------------------------------------------------------------------------------


def test_csv_fields_may_be_quoted_with_commas_quotes_and_line_breaks(table) -> None:
    found = table(read_csv, 'text,label\n"a, ""b""\nc",0\nd,1\n')
    assert found.columns == {"text": ['a, "b"\nc', "d"], "label": ["0", "1"]}
    assert found.rows == [2, 4]
    assert found.where(1).endswith("data, line 4")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_the_byte_order_mark_do_not_matter(table, end: str, mark: bytes) -> None:
    for reader, delimiter in ((read_csv, ","), (read_tsv, "\t")):
        rows = [delimiter.join(row) for row in (("text", "label"), ("é", "0"), ("b", "1"))]
        found = table(reader, mark + end.join(rows).encode())
        assert found.columns == {"text": ["é", "b"], "label": ["0", "1"]}
        assert found.rows == [2, 3]


def test_blank_lines_are_skipped_and_counted(table) -> None:
    assert table(read_csv, "\ntext,label\n\na,0\n\n\nb,1\n\n").rows == [4, 7]
    assert table(read_tsv, "\ntext\tlabel\n\na\t0\n\n\nb\t1\n\n").rows == [4, 7]
    assert table(read_json, '\n{"text": "a"}\n\n{"text": "b"}\n').rows == [2, 4]


def test_a_column_without_a_name_is_left_out(table) -> None:
    assert table(read_csv, ",text , label\n0,a,1\n").columns == {"text": ["a"], "label": ["1"]}


def test_a_row_with_another_number_of_fields_is_named(refusal) -> None:
    long = refusal(read_csv, 'text,label\n"a\nb",0\nc, d,1\n')
    assert long.startswith(
        "data, line 4: 3 fields where the first line has 2 ('text', 'label'); put double quotes"
    )
    assert refusal(read_csv, "text,label\na\n").startswith("data, line 2: 1 field where")
    assert refusal(read_tsv, "text\tlabel\na\tb\t0\n").startswith(
        "data, line 2: 3 fields where the first line has 2"
    )


def test_an_open_quote_is_named_where_it_starts(refusal) -> None:
    message = refusal(read_csv, 'text,label\na,0\n"b,1\nc,0\n')
    assert message.startswith("data, line 3: a quote that starts a field is never closed")


def test_text_behind_a_quote_is_named(refusal) -> None:
    assert refusal(read_csv, 'text,label\n"a"b,0\n').startswith("data, line 2: text follows a closing quote")


def test_a_field_too_long_for_csv_is_named(refusal) -> None:
    message = refusal(read_csv, f'text,label\na,0\n"{"x" * 140_000}",1\n')
    assert message.startswith("data, line 3: a field is longer than 131,072 characters")


@pytest.mark.parametrize("reader", [read_csv, read_tsv, read_json])
@pytest.mark.parametrize("content", [b"", b" \n\n", b"\xef\xbb\xbf"])
def test_an_empty_file_is_refused(refusal, reader: Reader, content: bytes) -> None:
    assert refusal(reader, content) == "data is empty: it needs column names and rows"


def test_a_header_alone_is_refused(refusal) -> None:
    message = "data has a first line with the column names 'text', 'label', but no rows"
    assert refusal(read_csv, "text,label\n") == message
    assert refusal(read_tsv, "text\tlabel\n") == message
    assert refusal(read_json, "[]") == "data has no rows"


def test_two_columns_of_one_name_are_refused(refusal) -> None:
    assert (
        refusal(read_csv, "\ntext,label,text\na,0,b\n")
        == "data, line 2: two columns have the name 'text'; rename one"
    )


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_other_encodings_are_refused_with_their_place(refusal, mark: bytes) -> None:
    start = mark + b"text,label\nfine,0\ncaf"
    message = refusal(read_csv, start + b"\xe9,1\n")
    assert message == f"data, line 3: byte 0xe9 at offset {len(start)} isn't UTF-8; save the file as UTF-8"
    assert "line 1: byte 0xff at offset 0" in refusal(read_json, "{}".encode("utf-16"))


def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        read_csv(tmp_path)


# -- tsv ----------------------------------------------------------------------------------------------


def test_stray_quotes_in_tsv_are_text(table) -> None:
    """Read as csv, the first quote swallows three lines, as it does in GLUE's MRPC, RTE and QNLI."""
    lines = ["text\tlabel", '" He said so .\t0', 'a 14" screen\t1', '"so" he said\t0', 'the end .\t"1']
    found = table(read_tsv, "\n".join(lines))
    assert found.columns["text"] == ['" He said so .', 'a 14" screen', '"so" he said', "the end ."]
    assert found.rows == [2, 3, 4, 5]


def test_a_quote_that_could_be_csv_s_is_text_beside_a_stray_one(table) -> None:
    assert table(read_tsv, 'text\n"a"\nb"\n').columns["text"] == ['"a"', 'b"']


def test_quotes_that_would_join_full_lines_are_text(table) -> None:
    found = table(read_tsv, 'text\tlabel\tid\na\tb\t"c\nd\te\tf"\n')
    assert found.columns["id"] == ['"c', 'f"']


def test_quotes_around_fields_are_csv_s_where_all_are(table) -> None:
    found = table(read_tsv, 'text\tlabel\n"a ""b"" c"\t0\nd\t1\n"e"\t0\n')
    assert found.columns["text"] == ['a "b" c', "d", "e"]


def test_a_quoted_field_may_go_over_lines(table) -> None:
    found = table(read_tsv, 'text\tlabel\n"a\nb ""c"""\t0\nd\t1\n')
    assert found.columns["text"] == ['a\nb "c"', "d"]
    assert found.rows == [2, 4]


field_text = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1).filter(str.strip)


@given(st.lists(st.tuples(field_text, field_text), min_size=1), st.sampled_from([",", "\t"]))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows, delimiter: str) -> None:
    file = StringIO()
    writer = csv.writer(file, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows([("text", "other"), *rows])
    path = tmp_path_factory.mktemp("csv") / "data"
    path.write_text(file.getvalue(), encoding="utf-8", newline="")
    found = (read_csv if delimiter == "," else read_tsv)(path)
    assert list(zip(found.columns["text"], found.columns["other"], strict=True)) == rows


@given(st.lists(st.lists(st.text(st.sampled_from('ab"')), min_size=3, max_size=3), min_size=1))
def test_a_line_of_tsv_is_a_row_whatever_its_quotes(tmp_path_factory, rows) -> None:
    path = tmp_path_factory.mktemp("tsv") / "data"
    path.write_text("\n".join("\t".join(row) for row in [["x", "y", "z"], *rows]), encoding="utf-8")
    found = read_tsv(path)
    assert found.rows == list(range(2, len(rows) + 2))
    kept = [[found.columns[name][i].replace('"', "") for name in "xyz"] for i in range(len(rows))]
    assert kept == [[value.replace('"', "") for value in row] for row in rows]


# -- json ----------------------------------------------------------------------------------------------


def test_json_may_be_lines_or_one_array(table) -> None:
    items = [{"text": "a\u2028b", "label": 1}, {"label": None, "id": 3}]
    columns = {"text": ["a\u2028b", None], "label": [1, None], "id": [None, 3]}
    lines = table(read_json, "\n".join(json.dumps(item, ensure_ascii=False) for item in items))
    array = table(read_json, json.dumps(items, indent=1))
    assert lines.columns == array.columns == columns
    assert (lines.unit, array.unit) == ("line", "row")
    assert lines.rows == array.rows == [1, 2]


def test_broken_json_is_named_by_line_and_column(refusal) -> None:
    message = refusal(read_json, '{"text": "a"}\n{"text": b}\n')
    assert message.startswith("data, line 2, column 10: not valid JSON (Expecting value)")
    assert refusal(read_json, '[{"text": "a"},\n {"text"}]').startswith(
        "data, line 2, column 9: not valid JSON"
    )


def test_rows_that_are_no_objects_are_named(refusal) -> None:
    assert refusal(read_json, '{"text": "a"}\n"b"\n').startswith("data, line 2: text, not an object")
    assert refusal(read_json, '[{"text": "a"}, 7]').startswith("data, row 2: a number, not an object")
    assert refusal(read_json, "[null]").startswith("data, row 1: nothing, not an object")
