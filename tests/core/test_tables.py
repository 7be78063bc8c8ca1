import numpy as np
import pytest

from core.tables import as_rows, parse_table

EXPECTED = np.array([[1.0, -2.5], [0.001, 4.0], [3.0, 7.0]])


@pytest.mark.parametrize(
    "text",
    [
        "1,-2.5\n1e-3,4\n3,7",
        "1, -2.5\n1e-3, 4\n3, 7\n\n",
        "x,y\n1,-2.5\n1e-3,4\n3,7\n",
        "1;-2,5\n0,001;4\n3;7\n",
        "1\t-2.5\n1e-3\t4\n3\t7\n",
        "  1 -2.5\r\n  0.001   4\r\n  3 7\r\n",
        "1,-2.5,\n1e-3,4,\n3,7,\n",
        "\ufeff1,-2.5\n1e-3,4\n3,7",
        '"1","-2.5"\n"1e-3","4"\n"3","7"\n',
        '"x","y"\n"1";"-2,5"\n"0,001";"4"\n"3";"7"\n',
    ],
)
def test_the_usual_spellings_of_a_table(text):
    np.testing.assert_array_equal(parse_table(text), EXPECTED)
    np.testing.assert_array_equal(parse_table(text.encode()), EXPECTED)


def test_a_saved_table_comes_back_exactly():
    table = np.random.default_rng(0).normal(size=(20, 9))
    text = "\n".join(",".join(repr(float(value)) for value in row) for row in table)
    np.testing.assert_array_equal(parse_table(text), table)
    assert as_rows(table)[3][4] == table[3, 4]
    assert hash(as_rows(table)) == hash(as_rows(table.copy()))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "The table is empty"),
        ("\n \n,,\n", "The table is empty"),
        ("name,value\n", "got only the line 'name,value'"),
        ("hello world", "got only the line 'hello world'"),
        ("1,2\n3,apple\n", "Line 2, column 2 holds the text 'apple' where a number belongs"),
        ("1,2\n3,,4\n", "Line 2 has 3 entries, the first row has 2"),
        ("1,2,3\n3,,4\n", "Line 2, column 2 holds an empty cell"),
        ("1,2\nNaN,4\n", "Line 2, column 1 is NaN: patterns must be finite"),
        ("1,2\n3,inf\n", "Line 2, column 2 is inf"),
        ("1,2\n3,1e12\n", "larger than 1e"),
        ("1,2\n3\n", "Line 2 has 1 entries, the first row has 2"),
        ("1,2\n", "one row only"),
        ("a,b\n1,2\n", "one row only"),
        ("1\n2\n3\n", "one column only"),
        ('"1,5","2,5"\n"3,5","4,5"\n', "Line 1, column 1 holds the text '\"1'"),
        ("1_0,2\n3,4\n", "holds the text '1_0'"),
        ("1e-300,1e-300\n1e-310,2e-300\n", "largest entry of the table is 2e-300 in size"),
        ("0,1e-7\n0,0\n", "smaller than 1e-06"),
        (b"PK\x03\x04rest of a workbook", "Excel or zip"),
        (b"\xff\xfe\x00\x01", "not UTF-8"),
        ("1,2\n" * 513, "513 rows, the limit is 512"),
        (("1," * 299 + "1\n") * 2, "300 columns, the limit is 256"),
    ],
)
def test_bad_tables_get_a_sentence(source, message):
    with pytest.raises(ValueError, match=message):
        parse_table(source)


def test_a_million_rows_are_refused_before_they_are_parsed():
    million = b"1,2\n" * 1_000_000
    with pytest.raises(ValueError, match=r"too large: 4.0 MB, the limit is 2.0 MB"):
        parse_table(million)
    with pytest.raises(ValueError, match="1,000,000 rows, the limit is 512"):
        parse_table(million, max_bytes=10_000_000)


def test_limits_can_be_set():
    with pytest.raises(ValueError, match="3 rows, the limit is 2"):
        parse_table("1,2\n3,4\n5,6", max_rows=2)
    with pytest.raises(ValueError, match="3 columns, the limit is 2"):
        parse_table("1,2,3\n3,4,5", max_columns=2)
