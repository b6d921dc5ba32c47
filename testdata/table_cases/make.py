#!/usr/bin/env python3
"""Makes cases.json: small CSV files and JSON lines, and what pandas and DuckDB read from each.

Run by hand: python3 testdata/table_cases/make.py, with pandas and duckdb installed. The cases are about what suites of
other readers are about: the corners of RFC 4180, quotes, line ends, encodings, ragged rows, comments, blanks, missing
values, numbers, and what JSON's grammar allows and refuses. pandas and DuckDB are told the dialect of a case where they
do not guess it; shardfeed guesses it, unless the case has options. tests/program/table_cases_test.py compares.
"""

import base64
import datetime
import io
import json
import math
import pathlib
import tempfile

import duckdb
import pandas

TARGET = pathlib.Path(__file__).resolve().parent / "cases.json"

cases = []


def csv(name, text, *options, encoding="utf-8", pandas=None, duckdb=None, **both):
    """`both` may have sep and header (False: none), which both readers are told."""
    cases.append({"kind": "csv", "name": name, "text": text.encode(encoding) if isinstance(text, str) else text,
                  "options": list(options), "pandas": pandas or {}, "duckdb": duckdb or {}, "both": both})


def jsonl(name, text):
    cases.append({"kind": "jsonl", "name": name, "text": text.encode() if isinstance(text, str) else text,
                  "options": [], "pandas": {}, "duckdb": {}, "both": {}})


# ---- RFC 4180

csv("simple", "a,b,c\n1,2,3\n4,5,6\n")
csv("simple_crlf", "a,b,c\r\n1,2,3\r\n4,5,6\r\n")
csv("no_line_break_at_the_end", "a,b,c\n1,2,3\n4,5,6")
csv("crlf_without_the_last", "a,b\r\nx,1\r\ny,2")
csv("all_quoted", '"a","b"\n"1","2"\n"x","y"\n')
csv("quoted_header", '"first name","last name"\nAda,Lovelace\nAlan,Turing\n')
csv("comma_in_quotes", 'first,last,address,zip\nJohn,Doe,"120 any st.",08123\nJane,Roe,"5 lane, Anytown, WW",08124\n')
csv("doubled_quotes", 'a,b\n1,"ha ""ha"" ha"\n3,4\n')
csv("doubled_quotes_alone", 'a,b\nx,""""\ny,"""q"""\n')
csv("doubled_quotes_and_line_breaks", 'a,b\n1,"ha \n""ha"" \nha"\n3,4\n')
csv("line_break_in_quotes", 'a,b,c\n1,2,3\n"Once upon \na time",5,6\n7,8,9\n')
csv("crlf_in_quotes", 'a,b,c\r\n1,2,3\r\n"Once upon \r\na time",5,6\r\n7,8,9\r\n')
csv("several_line_breaks_in_quotes", 'a,b\n"1\n\n2\n",x\n"\n",y\n')
csv("empty_cells", 'a,b,c\n1,"",""\n2,3,4\n')
csv("empty_cells_unquoted", "a,b,c\n1,,\n2,3,4\n")
csv("empty_first_cell", "a,b\n,1\nx,2\n")
csv("empty_last_cell", "a,b\nx,\ny,2\n")
csv("row_of_empty_cells", "a,b\n1,x\n,\n2,y\n")
csv("delimiter_last_in_every_row", "a,b,\n1,2,\n3,4,\n")
csv("quotes_inside_a_cell", 'a,b\nsize 5" wide,1\n6" long,2\n')
csv("apostrophes", "a,b\nit's,1\n'x',2\n")
csv("backslashes", "a,b\nC:\\new\\table,1\n\\,2\n")
csv("json_in_a_cell", 'key,val\n1,"{""type"": ""Point"", ""coordinates"": [102.0, 0.5]}"\n')
csv("html_in_a_cell", 'a,b\n1,"<a href=""x"">y</a>"\n2,<br>\n')
csv("space_before_cells_of_text", "a,b\nx, y\nz,w\n")
csv("space_at_the_end_of_text", "a,b\nx ,y\nz,w\n")
csv("one_column", "a\n1\n2\n3\n")
csv("one_column_of_text", "name\nAda\nAlan\nGrace\n")
csv("one_row", "a,b\n1,x\n")
csv("many_columns", ",".join(f"c{i}" for i in range(100)) + "\n" + ",".join(map(str, range(100))) + "\n")
csv("long_cell", "a,b\n1," + "x" * 5000 + "\n2,y\n")
csv("line_break_far_in_quotes", 'a,b\n1,"' + "x\n" * 1000 + '"\n2,y\n')
csv("blank_lines_between", "a,b\n1,x\n\n2,y\n\n\n3,z\n")
csv("blank_lines_at_the_end", "a,b\n1,x\n2,y\n\n\n")
csv("blank_line_first", "\na,b\n1,x\n2,y\n")

# ---- delimiters

csv("semicolons", "name;price\nx;1\ny;2\n", sep=";")
csv("tabs", "name\tprice\nx\t1\ny\t2\n", sep="\t")
csv("pipes", "name|price\nx|1\ny|2\n", sep="|")
csv("semicolons_with_commas_in_text", "name;price\nDoe, Jane;1\nRoe, Richard;2\n", sep=";")
csv("commas_with_semicolons_in_text", "name,price\na;b,1\nc;d,2\n")
csv("tabs_with_commas_in_text", "name\ttext\nx\ta, b\ny\tc, d\n", sep="\t")
csv("pipes_in_quotes", 'name|text\nx|"a|b"\ny|"c|d"\n', sep="|")
csv("semicolons_all_quoted", '"name";"price"\n"x";"1"\n"y";"2"\n', sep=";")
csv("sep_line", "sep=;\na;b\n1;x\n2;y\n", sep=";", pandas={"skiprows": 1}, duckdb={"skip": 1})
csv("decimal_commas", "city;degrees\nRome;21,5\nOslo;-3,25\n", sep=";", pandas={"decimal": ","},
    duckdb={"decimal_separator": ","})
csv("decimal_commas_and_integers", "city;degrees;n\nRome;21,5;3\nOslo;7;4\n", sep=";", pandas={"decimal": ","},
    duckdb={"decimal_separator": ","})
csv("decimal_commas_after_tabs", "city\tdegrees\nRome\t21,5\nOslo\t-3,25\n", sep="\t", pandas={"decimal": ","},
    duckdb={"decimal_separator": ","})
csv("decimal_commas_in_quotes", 'city,degrees\nRome,"21,5"\nOslo,"-3,25"\n', "--decimal", ",",
    pandas={"decimal": ","}, duckdb={"decimal_separator": ","})
csv("thousands", 'city,people\nRome,"2,860,009"\nOslo,"709,037"\n', "--thousands", ",", pandas={"thousands": ","},
    duckdb={"thousands": ","})

# ---- headers

csv("no_header", "5.1,3.5,setosa\n4.9,3.0,setosa\n6.3,3.3,virginica\n", header=False)
csv("no_header_of_integers", "1,10\n2,20\n3,30\n", header=False)
csv("no_header_one_column", "1.5\n2.5\n3.5\n", header=False)
csv("years_in_the_header", "country,1990,1991,1992\nChad,5.9,6.0,6.2\nOman,1.8,1.9,2.0\n", header=True)
csv("blanks_in_names", "first name,last name,age\nAda,Lovelace,36\n")
csv("names_in_capitals", "ID,Name\n1,x\n2,y\n")
csv("names_that_differ_in_case", "Id,id,name\n1,2,x\n3,4,y\n")
csv("names_in_other_scripts", "имя,年齢,größe\nАнна,30,1.7\n花子,25,1.6\n")
csv("row_numbers_without_a_name", ",a,b\n0,x,1\n1,y,2\n", header=True)
csv("equal_names", "a,a,b\n1,2,3\n4,5,6\n", header=True)
csv("no_name_in_the_middle", "a,,b\n1,2,3\n4,5,6\n", header=True)
csv("no_records", "a,b\n")
csv("empty_file", "")

# ---- encodings

csv("byte_order_mark", "a,b\nx,1\ny,2\n", encoding="utf-8-sig")
csv("byte_order_mark_before_quotes", '"a","b"\n"x","1"\n"y","2"\n', encoding="utf-8-sig")
csv("utf_8", "a,b\n€,1\nŷ,2\n🙂,3\n")
csv("utf_16", "a,b\n€,1\nŷ,2\n", encoding="utf-16", pandas={"encoding": "utf-16"}, duckdb={"encoding": "utf-16"})
csv("latin_1", "a,b\nf\xfcr,1\n\xe9t\xe9,2\n", "--encoding", "latin-1", encoding="latin-1",
    pandas={"encoding": "latin-1"}, duckdb={"encoding": "latin-1"})
csv("windows_1252", "a,b\n5 €,1\n“x”,2\n", "--encoding", "windows-1252", encoding="cp1252",
    pandas={"encoding": "cp1252"}, duckdb={"encoding": "windows-1252"})
csv("not_utf_8", b"a,b\nf\xfcr,1\n")
csv("composed_and_decomposed", "a,b\n\u00e9,1\ne\u0301,2\n")
csv("other_line_breaks_are_text", "a,b\nx\u2028y,1\nz\x0bw,2\n")

# ---- comments

csv("comment_first", "# made by hand\na,b\n1,x\n2,y\n", pandas={"comment": "#"}, duckdb={"comment": "#"})
csv("several_comments", "# one\n# two, three\n#\na,b\n1,x\n2,y\n", pandas={"comment": "#"}, duckdb={"comment": "#"})
csv("hash_in_a_cell", "a,b\n1,#x\n2,y#z\n")
csv("hash_in_a_quoted_header", '"#a",b\n1,x\n2,y\n')

# ---- missing values

csv("missing_among_integers", "a,b\n1,x\n,y\n3,z\n")
csv("missing_among_floats", "a,b\n1.5,x\n,y\n3.5,z\n")
for word in ("NA", "N/A", "null", "NULL", "NaN", "nan", "None", "#N/A", "n/a", "<NA>"):
    csv(f"{word}_among_integers", f"a,b\n1,x\n{word},y\n3,z\n", duckdb={"nullstr": word})
    csv(f"{word}_among_floats", f"a,b\n1.5,x\n{word},y\n-3.25,z\n", duckdb={"nullstr": word})
csv("dash_among_integers", "a,b\n1,x\n-,y\n3,z\n", pandas={"na_values": ["-"]}, duckdb={"nullstr": "-"})
csv("question_mark", "a,b\n1,x\n?,?\n3,z\n", "--na", "?", pandas={"na_values": ["?"], "keep_default_na": False},
    duckdb={"nullstr": "?"})
csv("column_without_values", "a,b,c\n1,,x\n2,,y\n")
csv("words_in_text", "a,b\nNamibia,NA\nGermany,DE\n")

# ---- numbers

csv("integers", "a,b\n0,-1\n9223372036854775807,-9223372036854775808\n")
csv("integers_beyond_64_bits", "a,b\n18446744073709551616,x\n1,y\n")
csv("fractions", "a,b\n0.5,-1.25\n3.0,1e3\n.5,5.\n")
csv("exponents", "a,b\n1e5,1E-3\n-2.5e+10,3e0\n")
csv("integers_and_fractions", "a,b\n1,x\n2.5,y\n3,z\n")
csv("leading_zeros", "zip,n\n01234,1\n98765,2\n")
csv("leading_plus", "a,b\n+1,x\n+2,y\n")
csv("infinity", "a,b\ninf,x\n-inf,y\n1.5,z\n")
csv("blanks_around_numbers", "a,b\n 1,x\n2 ,y\n 3 ,z\n")
csv("blanks_after_every_delimiter", "age, work, pay\n39, State-gov, 77516\n50, Private, 83311\n", pandas={"skipinitialspace": True})
csv("numbers_and_text", "a,b\n1,x\ntwo,y\n3,z\n")
csv("numbers_in_quotes", 'a,b\n"1",x\n"2",y\n')
csv("hexadecimal", "a,b\n0x1F,x\n0x20,y\n")
csv("underscores", "a,b\n1_000,x\n2_000,y\n")
csv("percentages", "a,b\n10%,x\n20%,y\n")
csv("currencies", "a,b\n$10,x\n$20,y\n")
csv("telephone_numbers", "a,b\n555-1234,x\n555-9876,y\n")
csv("versions", "a,b\n1.2.3,x\n1.10.0,y\n")
csv("minus_alone", "a,b\n1-2,x\n--3,y\n")

# ---- true and false, dates

csv("true_and_false", "a,b\ntrue,1\nfalse,2\n")
csv("True_and_False", "a,b\nTrue,1\nFalse,2\n")
csv("TRUE_and_FALSE", "a,b\nTRUE,1\nFALSE,2\n")
csv("yes_and_no", "a,b\nyes,1\nno,2\n")
csv("dates", "day,n\n2024-01-31,1\n2024-02-29,2\n")
csv("days_first", "day,n\n31.01.2024,1\n29.02.2024,2\n")
csv("times", "time,n\n13:45:00,1\n00:00:01,2\n")

# ---- broken

csv("too_many_cells", "a,b\n1,2\n3,4,5\n", duckdb={"strict_mode": True})
csv("too_few_cells", "a,b\n1,2\n3\n")
csv("open_quote", 'a,b\n1,"x\n2,y\n', sep=",")
csv("text_after_a_quote", 'a,b\n1,"x"y\n2,z\n', sep=",")

# ---- JSON lines

jsonl("simple", '{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n')
jsonl("without_the_last_line_break", '{"a": 1}\n{"a": 2}')
jsonl("crlf", '{"a": 1}\r\n{"a": 2}\r\n')
jsonl("blanks", '  { "a" :\t1 , "b":[ ] } \n{"a":2,"b":[]}\n')
jsonl("blank_lines", '{"a": 1}\n\n{"a": 2}\n\n')
jsonl("missing_keys", '{"a": 1}\n{"b": 2.5}\n{"a": 3, "b": 4.5}\n')
jsonl("other_order_of_keys", '{"a": 1, "b": 2}\n{"b": 3, "a": 4}\n')
jsonl("nulls", '{"a": null, "b": "x"}\n{"a": 1, "b": null}\n')
jsonl("floats", '{"a": 1.5, "b": 1e3}\n{"a": -0.25, "b": 1E-3}\n')
jsonl("integers_and_floats", '{"a": 1}\n{"a": 2.5}\n')
jsonl("large_integers", '{"a": 9223372036854775807}\n{"a": -9223372036854775808}\n')
jsonl("booleans", '{"a": true}\n{"a": false}\n')
jsonl("escapes", '{"a": "\\" \\\\ \\/ \\b \\f \\n \\r \\t"}\n{"a": "x"}\n')
jsonl("escaped_characters", '{"a": "\\u00e9\\u20ac"}\n{"a": "\\ud83d\\ude42"}\n')
jsonl("unescaped_characters", '{"a": "é€🙂"}\n{"a": "\u2028"}\n')
jsonl("delete_is_no_control_character", '{"a": "\x7f"}\n{"a": "x"}\n')
jsonl("empty_text", '{"a": ""}\n{"a": "x"}\n')
jsonl("texts_that_look_like_values", '{"a": "1"}\n{"a": "true"}\n{"a": "x"}\n')
jsonl("lists_of_integers", '{"a": [1, 2, 3]}\n{"a": [4, 5]}\n')
jsonl("lists_of_text", '{"a": ["x", "y"]}\n{"a": ["z", ""]}\n')
jsonl("lists_of_floats", '{"a": [1.5, 2.25]}\n{"a": [0.5, -3.125]}\n')
jsonl("many_keys", "{" + ", ".join(f'"k{i}": {i}' for i in range(200)) + "}\n")
jsonl("long_text", '{"a": "' + "x" * 5000 + '"}\n{"a": "y"}\n')
jsonl("byte_order_mark", b'\xef\xbb\xbf{"a": 1}\n{"a": 2}\n')
for number in ("0", "-0", "0.0", "0e1", "0E+1", "1e0", "1E22", "123.456e7", "-1", "-1.5", "1e-2",
               "123456789"):
    jsonl(f"number {number}", f'{{"a": {number}}}\n')
for what, text in {
        "comma_at_the_end_of_a_list": '{"a": [1,]}', "comma_at_the_end": '{"a": 1,}', "two_commas": '{"a": [1,,2]}',
        "comma_first": '{"a": [,1]}', "no_comma": '{"a": [1 2]}', "semicolon": '{"a": [1;2]}',
        "open_list": '{"a": [1', "open_object": '{"a": 1', "open_text": '{"a": "x', "closed_twice": '{"a": [1]]}',
        "no_colon": '{"a" 1}', "two_colons": '{"a":: 1}', "key_without_quotes": '{a: 1}',
        "apostrophes": "{'a': 1}", "no_value": '{"a": }', "plus": '{"a": +1}', "leading_zero": '{"a": 01}',
        "no_whole_part": '{"a": .5}', "no_fraction": '{"a": 1.}', "no_exponent": '{"a": 1e}',
        "two_points": '{"a": 1.2.3}', "hexadecimal": '{"a": 0x1}', "minus_alone": '{"a": -}',
        "minus_twice": '{"a": --1}', "capitals": '{"a": True}', "half_a_word": '{"a": nul}',
        "escape_without_meaning": '{"a": "\\x"}', "escape_cut_off": '{"a": "\\u00"}', "backslash_last": '{"a": "\\"}',
        "control_character": '{"a": "\x01"}', "tab_in_text": '{"a": "\t"}', "comment": '{"a": 1 /* x */}',
        "text_after_the_object": '{"a": 1} x', "array": "[1", "list_closed_by_a_brace": '{"a": [1}'}.items():
    jsonl(f"refuse {what}", text + "\n")
jsonl("refuse not_utf_8", b'{"a": "\xff"}\n')


# ---- what the others read


def cell(value):
    if isinstance(value, list) or type(value).__name__ == "ndarray":
        values = [cell(one) for one in value]
        return values[0] if len(values) == 1 else values
    if value is None or value is pandas.NaT or value is pandas.NA:
        return None
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, (datetime.date, datetime.time)):
        return str(value)
    return value if isinstance(value, (bool, int, float, str)) else repr(value)


def by_pandas(case):
    text = io.BytesIO(case["text"])
    if case["kind"] == "jsonl":
        frame = pandas.read_json(text, lines=True, convert_axes=False, dtype=False)
    else:
        both = dict(case["both"])
        if not both.pop("header", True):
            both["header"] = None
        frame = pandas.read_csv(text, low_memory=False, index_col=False, **both, **case["pandas"])
    return {"names": [str(name) for name in frame.columns],
            "rows": [[cell(value) for value in row] for row in frame.astype(object).values.tolist()]}


def by_duckdb(case):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t"
        path.write_bytes(case["text"])
        if case["kind"] == "jsonl":
            found = duckdb.sql(f"SELECT * FROM read_json('{path}', format='newline_delimited', map_inference_threshold=-1)")
        else:
            options = {**case["both"], **case["duckdb"]}
            options["delim"] = options.pop("sep", ",")
            if "header" not in options:
                options["header"] = True
            given = ", ".join(f"{key}={value!r}" for key, value in options.items())
            found = duckdb.sql(f"SELECT * FROM read_csv('{path}', {given})")
        return {"names": found.columns, "rows": [[cell(value) for value in row] for row in found.fetchall()]}


def read(reader, case):
    try:
        return reader(case)
    except Exception as error:  # whatever it raises, it refused the file
        return {"error": type(error).__name__}


def main():
    entries = []
    for case in cases:
        entry = {"kind": case["kind"], "name": case["name"]}
        try:
            entry["text"] = case["text"].decode()
        except UnicodeError:
            entry["base64"] = base64.b64encode(case["text"]).decode()
        if case["options"]:
            entry["options"] = case["options"]
        entry["pandas"] = read(by_pandas, case)
        entry["duckdb"] = read(by_duckdb, case)
        entries.append(entry)
    names = [(entry["kind"], entry["name"]) for entry in entries]
    assert len(set(names)) == len(names)
    made_by = {"pandas": pandas.__version__, "duckdb": duckdb.__version__}
    lines = ",\n".join(json.dumps(entry, ensure_ascii=True, separators=(",", ":")) for entry in entries)
    TARGET.write_text(f'{{"made_by": {json.dumps(made_by)}, "cases": [\n{lines}\n]}}\n')
    print(f"{len(entries)} cases, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
