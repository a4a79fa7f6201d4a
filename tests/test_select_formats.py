"""A user's texts: every format, the field that holds the text, what is broken, and constant memory."""

import csv
import gzip
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pandas as pd
import pytest
from saved_models import word_tokenizer

from experiments.errors import UserError
from experiments.selecting.candidates import find_sources, find_target
from experiments.selecting.reading import BLOCKS, TooLittleError, read_sample
from experiments.text_files import texts

ROOT = Path(__file__).resolve().parent.parent
TEXTS = ["w1 w2 é", 'w3, "w4"', "two\nlines", "w5"]


def write(path: Path, column: str = "text", **others) -> Path:
    """The texts in the format that the name says, beside other columns."""
    rows = [{"id": number, column: text} | others for number, text in enumerate(TEXTS)]
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    if kind == "parquet":
        pd.DataFrame(rows).to_parquet(path)
        return path
    with gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w") as file:
        if kind == "jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        elif kind in ("csv", "tsv"):
            writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if kind == "tsv" else ",")
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.write("\n".join(TEXTS))
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.csv", "a.csv.gz", "a.tsv", "a.parquet"])
@pytest.mark.parametrize(
    ("column", "others", "field"),
    [
        ("body", {}, None),
        ("text", {"title": "t"}, None),
        ("Content", {"u": "v"}, None),
        ("b", {"c": "d"}, "b"),
    ],
)
def test_the_text_of_a_table_is_found(tmp_path, name, column, others, field):
    assert list(texts(write(tmp_path / name, column, **others), field)) == TEXTS


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a", "a.txt.gz"])
def test_a_plain_text_is_one_document(tmp_path, name):
    assert list(texts(write(tmp_path / name), None)) == ["\n".join(TEXTS)]


def test_a_long_plain_text_comes_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.text_files.BLOCK_CHARACTERS", 10)
    (tmp_path / "a.txt").write_text("short\nlines\n" + "x" * 25 + "\nend")
    blocks = list(texts(tmp_path / "a.txt", None))
    assert "".join(blocks) == "short\nlines\n" + "x" * 25 + "\nend"
    assert blocks[0] == "short\nlines\n" and max(map(len, blocks)) < 20


@pytest.mark.parametrize(
    ("name", "content", "field", "says"),
    [
        ("a.jsonl", b'{"a": "x", "b": "y"}', None, "a.jsonl, line 1: fields a, b hold text; name the one"),
        ("a.jsonl", b'{"a": 1}', None, "a.jsonl, line 1: no field holds text; name the one to read"),
        ("a.jsonl", b'\n{"a": "x"}\n{"b": "y"}', None, "a.jsonl, line 3: no such field; it has b"),
        ("a.jsonl", b'{"a": "x"}\n{"a": null}', "a", "a.jsonl, line 2: must hold text, not None"),
        ("a.jsonl", b'"text"', None, "a.jsonl, line 1: must be an object with the field 'text'"),
        ("a.jsonl", b"[" * 100_000, None, "a.jsonl, line 1: not JSON"),
        ("a.csv", b"n,a,b\n1,x,y\n", None, "a.csv, line 2: fields a, b hold text; name the one to read"),
        ("a.csv", b"n,a\n1,x\n", "text", "a.csv: no such column; it has n, a"),
        ("a.csv", b"text\n\xff\xfe\n", None, "a.csv is not UTF-8 text"),
        ("a.parquet", b"PAR1 not really", None, "a.parquet: not a whole Parquet file"),
        ("a.csv.gz", gzip.compress(b"text\nword\n")[:-6], None, "a.csv.gz is not a whole gzip file"),
        ("a.bin", b"a\0b", None, "a.bin holds binary data, not text"),
    ],
)
def test_what_is_broken_is_named(tmp_path, name, content, field, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"^{tmp_path}/{says}"):
        list(texts(tmp_path / name, field))


@pytest.mark.parametrize(
    ("field", "says"), [("id", "must hold text, not int64"), ("no", "no such column; it has id, text")]
)
def test_a_column_of_a_parquet_file_is_checked(tmp_path, field, says):
    with pytest.raises(UserError, match=f"a.parquet: {says}$"):
        list(texts(write(tmp_path / "a.parquet"), field))


LINES = """
import resource, sys
from pathlib import Path
from experiments.text_files import texts
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
counts = [sum(1 for _ in texts(Path(path), None)) for path in sys.argv[1:]]
print(*counts, peak() - before)
"""


def test_a_million_lines_stream_in_constant_memory(tmp_path):
    line = json.dumps({"id": 12345, "text": "some more words"}) + "\n"
    (tmp_path / "big.jsonl").write_text(line * 1_000_000)
    (tmp_path / "big.txt").hardlink_to(tmp_path / "big.jsonl")
    command = [sys.executable, "-c", LINES, str(tmp_path / "big.jsonl"), str(tmp_path / "big.txt")]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    documents, blocks, mebibytes = map(int, done.stdout.split())
    assert (documents, blocks) == (1_000_000, -(-len(line) * 10**6 // 2**20))
    assert mebibytes < 16 < len(line) * 10**6 / 2**20


def test_no_more_is_read_than_the_tokens_take():
    def endless():
        for number in range(10**6):
            asked.append(number)
            yield f"w{number % 200} " * 20

    asked: list[int] = []
    sample = read_sample(endless(), word_tokenizer(adds_bos=True), 160, 16)
    assert sample.windows.shape == (10, 17) and sample.num_tokens == 160
    assert len(asked) <= 16


def test_too_little_text_says_what_it_has_and_needs():
    with pytest.raises(
        TooLittleError, match=r"^has 5 tokens, but needs 128 \(8 windows of 16\); give it more"
    ):
        read_sample(["w1 w2", "w3 w4 w5"], word_tokenizer(adds_bos=True), 512, 16)
    assert len(read_sample(["w1 " * 128], word_tokenizer(adds_bos=True), 512, 16).windows) == BLOCKS


def names(value, **more) -> list[str]:
    return [source.name for source in find_sources(value, None, **more)[0]]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in (
        "a.txt",
        "b.jsonl",
        "c.csv.gz",
        "sub/d.txt",
        "sub/deep/e.csv",
        "my texts/é=1.txt",
        "x/a.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / name)
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\0")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_a_folder_is_a_source_for_each_file_and_subfolder(folder):
    sources, left_out = find_sources(".", None)
    assert [one.name for one in sources] == ["a.txt", "b.jsonl", "c.csv.gz", "my texts", "sub", "x"]
    assert set(left_out) == {"empty", "photo.png"}
    assert len(sources[4].files) == 2


def test_a_glob_and_a_list_name_sources(folder):
    assert names("*.t?t") == ["a.txt"]
    assert names("**/*.txt") == [f"{folder.name}/a.txt", "é=1.txt", "d.txt", "x/a.txt"]
    assert names(["b.jsonl", "sub", "x/*", "b.jsonl"]) == ["b.jsonl", "sub", "a.txt"]
    assert names(["a.txt", "x/a.txt"]) == [f"{folder.name}/a.txt", "x/a.txt"]
    assert names("my texts/é=1.txt") == ["é=1.txt"]


def test_the_files_of_a_folder_are_read_in_turn(folder):
    (folder / "sub" / "first.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    target = find_target("sub", None)
    assert list(islice(target.documents(), 3)) == ["\n".join(TEXTS), TEXTS[0], "one"]
    assert len(list(target.documents())) == 1 + 4 + 2


def test_domain_entries_are_sources_too(folder):
    entry = {"kind": "local_text", "path": "b.jsonl"}
    assert list(find_target(entry, None).documents()) == TEXTS
    assert names({"one": entry, "two": entry | {"path": "a.txt"}}) == ["one", "two"]
    assert names([entry | {"group": "g"}, "a.txt"]) == ["source", "a.txt"]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("none.txt", r"sources=none.txt: there is no such file or folder \(looked in /"),
        ("*.docx", r"sources=\*.docx: matches no file or folder \(looked in /"),
        ("empty", r"sources=empty: the folder holds no \*.txt, .*, \*.safetensors, nor folders of them"),
        (["a.txt", "empty"], r"sources=empty: the folder holds no \*.txt"),
        ({"one": "a.txt"}, r"sources.one=a.txt: must be a mapping with a kind"),
        ({"one": {"kind": "pdf"}}, r"sources.one.kind=pdf: must be one of .*, hub_dataset, local_text"),
        ({"kind": "hub_dataset", "repo": "a/b"}, r"sources.a/b.revision: must be set"),
    ],
)
def test_sources_that_are_not_there_are_named(folder, value, says):
    with pytest.raises(UserError, match=f"^{says}"):
        for source in find_sources(value, None)[0]:
            list(source.documents())


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("none.txt", r"target=none.txt: there is no such file or folder \(looked in /"),
        ("lib/a.safetensors", "target=lib/a.safetensors: a signature, not a text; "),
        ("empty", r"target=empty: the folder holds no \*.txt"),
    ],
)
def test_a_target_that_is_not_there_is_named(folder, value, says):
    with pytest.raises(UserError, match=f"^{says}"):
        find_target(value, None)


def test_a_wrong_field_is_a_setting(folder):
    with pytest.raises(
        UserError, match=r"^settings.field=body: b.jsonl, line 1: no such field; it has id, text"
    ):
        list(find_target("b.jsonl", "body").documents())
    (folder / "two.jsonl").write_text('{"a": "x", "b": "y"}\n')
    with pytest.raises(
        UserError, match=r"^settings.field: two.jsonl, line 1: fields a, b hold text; name the"
    ):
        list(find_target("two.jsonl", None).documents())
