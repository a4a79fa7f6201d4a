import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from composed import composed
from hub_server import serve_hub

ROOT = Path(__file__).parent.parent
SCRIPT = """
import json, sys
from experiments.domains.domain_set import DomainSetConfig
from saved_models import word_tokenizer
for entries in json.load(sys.stdin):
    config = DomainSetConfig(
        window_tokens=8, train_windows=4, sketch_windows=4, held_out_windows=2, entries={"web": entries}
    )
    try:
        built = config.build(word_tokenizer(adds_bos=True))
        print(json.dumps([[domain.name, domain.source, domain.train.tolist()] for domain in built.domains]))
    except ValueError as error:
        print(json.dumps(f"{type(error).__name__}: {error}"))
"""
ENTRY = {
    "kind": "hub_dataset",
    "group": "web",
    "licence": "MIT",
    "repo": "owner/data",
    "revision": "main",
    "split": "train",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[str, list | str]:
    """What building domain sets gives, from a hub on this machine."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "data").mkdir()
    with gzip.open(folder / "data" / "train.jsonl.gz", "wt") as file:
        for row in range(120):
            text = f"w{row} w{row + 1} w{row + 2} w{row + 3}"
            file.write(json.dumps({"text": text, "subdomain": f"site{row % 3}"}) + "\n")
    asked = {
        "whole": ENTRY,
        "split": ENTRY | {"split_by": "subdomain"},
        "one": ENTRY | {"split_by": "subdomain", "value": "site1"},
        "field": ENTRY | {"field": "body"},
        "no split": ENTRY | {"split": "val"},
        "gated": ENTRY | {"repo": "owner/gated"},
    }
    with serve_hub({"owner/data": folder / "data"}) as endpoint:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT],
            cwd=ROOT,
            env=os.environ
            | {"HF_HOME": str(folder / "home"), "HF_TOKEN": ""}
            | {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0"}
            | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
            input=json.dumps(list(asked.values())),
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 0, done.stderr
    return dict(zip(asked, map(json.loads, done.stdout.splitlines()), strict=True))


def test_a_data_set_is_one_domain(answers):
    ((name, source, train),) = answers["whole"]
    assert name == "web" and source == "owner/data@main, default/train"
    assert len(train) == 4 and all(len(window) == 9 and window[0] == 0 for window in train)


def test_a_field_splits_it_into_domains_of_their_own(answers):
    assert [name for name, *_ in answers["split"]] == ["site0", "site1", "site2"]
    assert answers["split"][1][1] == "owner/data@main, default/train, subdomain site1"
    # Texts of site1 start with w1, w4, w7, ..., whose ids are two more.
    starts = {window[1] for window in answers["split"][1][2]}
    assert all(start % 3 == 0 for start in starts)


def test_one_value_of_the_field_can_be_asked_for(answers):
    assert [train for _, _, train in answers["one"]] == [answers["split"][1][2]]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("field", r"\.field=body: owner/data has text, subdomain"),
        ("no split", r"\.repo=owner/data: cannot be loaded: Bad split: val\. Available splits: \['train'\]"),
        (
            "gated",
            r"\.repo=owner/gated: gated on the Hugging Face hub; accept its terms .*, then set HF_TOKEN .*",
        ),
    ],
)
def test_what_cannot_be_had_is_named(answers, what, says):
    assert re.fullmatch(f"UserError: domains\\.entries\\.web{says}", answers[what])


def test_offline_the_hundred_web_domains_fail_at_once_with_what_to_do():
    assert list(composed("domains", "c4_100").chosen()) == ["c4"]
    script = (
        "from composed import composed\n"
        "from saved_models import word_tokenizer\n"
        "try: composed('domains', 'c4_100').build(word_tokenizer(adds_bos=True))\n"
        "except ValueError as error: print(error)"
    )
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert re.fullmatch(
        r"domains\.entries\.c4\.repo=allenai/paloma: the Hugging Face hub cannot be reached \(.*\); "
        r"go online, or export it to a \.jsonl file elsewhere and use kind "
        r"local_text\n",
        done.stdout,
    )
